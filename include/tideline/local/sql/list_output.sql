-- The impressions in the table, to compare them with those in the Delta table.
SELECT kafka_partition, kafka_offset, impression_id, price FROM ads.impressions;
