"""12,345.6: digits in threes with a comma, as Taiwan writes them; Django groups none."""

THOUSAND_SEPARATOR = ","
NUMBER_GROUPING = 3
