-- Delete the rejects of batches that are rewound.
DELETE FROM tideline.reject WHERE batch_id = ANY (%(batch_ids)s);
