-- A small shop: 5,000 customers, 100 products, 60,000 orders and 180,000 items. The rows follow from their numbers, so
-- that every server has the same ones. The SQL is of every release of MySQL since 5.5 and of PostgreSQL.

CREATE TABLE digits (d INT NOT NULL PRIMARY KEY);
INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9);

CREATE TABLE numbers (n INT NOT NULL PRIMARY KEY);
INSERT INTO numbers
SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d
FROM digits a, digits b, digits c, digits e, digits f
WHERE f.d < 6
ORDER BY 1;

CREATE TABLE customers (
  id INT NOT NULL PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  city VARCHAR(40) NOT NULL,
  since DATE NOT NULL
);
INSERT INTO customers
SELECT n, CONCAT('Customer ', n), CONCAT('City ', (n * 37) % 50), '2020-01-01'
FROM numbers WHERE n <= 5000 ORDER BY n;
CREATE INDEX customers_city ON customers (city);

CREATE TABLE products (
  id INT NOT NULL PRIMARY KEY,
  name VARCHAR(60) NOT NULL,
  price INT NOT NULL
);
INSERT INTO products SELECT n, CONCAT('Product ', n), 100 + (n * 7919) % 9900 FROM numbers WHERE n <= 100 ORDER BY n;

-- Every customer has twelve orders; one in fifty is open.
CREATE TABLE orders (
  id INT NOT NULL PRIMARY KEY,
  customer_id INT NOT NULL,
  state VARCHAR(10) NOT NULL,
  day INT NOT NULL,
  note VARCHAR(100) NOT NULL
);
INSERT INTO orders
SELECT n, 1 + (n * 3571) % 5000, CASE WHEN (n * 31) % 50 = 0 THEN 'open' ELSE 'done' END, n / 60, CONCAT('Order ', n)
FROM numbers ORDER BY n;
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX orders_day ON orders (day);

CREATE TABLE items (
  order_id INT NOT NULL,
  line INT NOT NULL,
  product_id INT NOT NULL,
  pieces INT NOT NULL,
  PRIMARY KEY (order_id, line)
);
INSERT INTO items
SELECT n, 1 + d, 1 + (n * 13 + d * 29) % 100, 1 + (n + d) % 5 FROM numbers, digits WHERE d < 3 ORDER BY n, d;
CREATE INDEX items_product ON items (product_id);

DROP TABLE numbers;
DROP TABLE digits;
