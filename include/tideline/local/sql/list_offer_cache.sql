-- List the offers as they are now, each with the place of its newest change.
SELECT offer_id, advertiser, category, bid_micros, changed_at, kafka_partition, kafka_offset FROM ads.offer_cache ORDER BY offer_id;
