-- Collect the statistics of staged rows, so that the joins with the output table are planned by their number.
ANALYZE {staging};
