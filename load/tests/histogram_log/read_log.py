"""Prints what Python's HistogramLogReader finds in the log that is named: JSON, the lines and how many follow StartTime."""

import json
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

PERCENTS = [0, 50, 90, 99, 99.9, 100]


def lines(**chosen):
    reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3_600_000_000_000, 3))
    while True:
        line = reader.get_next_interval_histogram(**chosen)
        if line is None:
            return
        yield line


def found(line):
    return {
        "tag": line.get_tag(),
        "start_ms": round(line.get_start_time_stamp()),
        "end_ms": round(line.get_end_time_stamp()),
        "count": line.get_total_count(),
        "min": line.get_min_value(),
        "max": line.get_max_value(),
        "quantiles": [line.get_value_at_percentile(percent) for percent in PERCENTS],
        "recorded": [[step.value_iterated_to, step.count_at_value_iterated_to] for step in line.get_recorded_iterator()],
    }


every = [found(line) for line in lines(absolute=True)]
print(json.dumps({"lines": every, "from_start": sum(1 for _ in lines())}))
