"""One regression on one screen: from its verdict and its rounds to the function, and the next thing to do."""

from rqps.pages.one_regression.evidence import Evidence, gather
from rqps.pages.one_regression.next_steps import examples
from rqps.pages.one_regression.screen import screen
