-- Take a pipeline out of sight, or bring it back. Touches no row where it is so already. A pipeline that retires must have no open batches, and the
-- transaction needs a reason.
UPDATE tideline.pipeline SET retired_at = CASE WHEN %(retired)s THEN now() END
WHERE pipeline = %(pipeline)s AND (retired_at IS NOT NULL) <> %(retired)s;
