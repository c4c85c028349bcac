"""Figures of published studies: read strictly, calculated again, and compared with themselves and with ours."""

from rqps.published.figures import Published, read
