-- Create a role that may log in. It has no password yet.
CREATE ROLE {role} LOGIN;
