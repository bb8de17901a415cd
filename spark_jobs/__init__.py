"""What runs under spark-submit: read a batch's ranges, decode, transform, stage, publish. The only rooms that import Spark."""
