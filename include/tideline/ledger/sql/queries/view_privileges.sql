-- The rights that the ledger's user lacks, of those that loading needs (docs/permissions.md), such as `UPDATE on
-- tideline.batch`.
WITH needed AS (
    SELECT privilege, 'tideline.' || name AS table_name
    FROM (VALUES
        ('SELECT', 'attempt batch batch_range coverage event intent letters migration outbox output_table pipeline redrive reject rewind run_batch
                    staged_count staged_redrive staged_reject state state_batch state_columns state_position state_position_undo state_undo stream'),
        ('INSERT', 'attempt batch batch_range coverage event intent letters outbox output_table pipeline redrive reject rewind run_batch
                    staged_count staged_redrive staged_reject state state_batch state_columns state_position state_position_undo state_undo stream'),
        ('UPDATE', 'attempt batch batch_range coverage letters outbox output_table pipeline reject staged_count staged_redrive
                    state state_batch state_columns state_position stream'),
        ('DELETE', 'coverage event output_table reject staged_count staged_redrive staged_reject state state_position_undo state_undo')
    ) AS of_privilege (privilege, names), regexp_split_to_table(names, '\s+') AS name
)
SELECT privilege || ' on ' || table_name AS lacks FROM needed WHERE NOT has_table_privilege(table_name, privilege)
UNION ALL
SELECT privilege || ' on schema tideline_staging' FROM unnest(ARRAY['USAGE', 'CREATE']) AS privilege
WHERE NOT has_schema_privilege('tideline_staging', privilege)
ORDER BY lacks;
