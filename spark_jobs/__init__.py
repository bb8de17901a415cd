"""The code that runs under spark-submit: read a batch's ranges, decode, transform, stage, publish. Only this package imports Spark."""
