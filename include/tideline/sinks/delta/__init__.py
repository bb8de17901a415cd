"""The Delta sink: executors write Parquet files into the table's folder, and one commit makes those of the winning tasks visible."""
