import logging

logging.getLogger("daybook").setLevel(logging.CRITICAL)
