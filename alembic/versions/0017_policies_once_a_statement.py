"""Policies read whose rows a statement may see once for the statement, not for each of its rows."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

# Read for each row, the two settings took more time than all else that a count of rows does.
ONCE = """CASE
    WHEN (SELECT current_setting('turngate.every_tenant', true)) = 'on' THEN true
    ELSE %I = (SELECT current_setting('turngate.tenant', true)) END"""
EACH = """CASE
    WHEN current_setting('turngate.every_tenant', true) = 'on' THEN true
    ELSE %I = current_setting('turngate.tenant', true) END"""

ALTER = """
DO $do$ DECLARE name regclass; BEGIN
FOR name IN SELECT polrelid FROM pg_policy WHERE polname = 'of_its_tenant' LOOP
    EXECUTE format('ALTER POLICY of_its_tenant ON %s USING (' || $sql${policy}$sql$ || ')',
        name, CASE WHEN name = 'tenants'::regclass THEN 'id' ELSE 'tenant' END);
END LOOP;
END $do$
"""

SECURE = """
CREATE OR REPLACE FUNCTION secure_tenant_tables() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    name regclass;
BEGIN
    FOR name IN
        SELECT c.oid FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')
            AND a.attname = 'tenant' AND NOT a.attisdropped
            AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY of_its_tenant ON %s USING (' || $sql${policy}$sql$ || ')',
            name, 'tenant');
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'turngate_service') THEN
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO turngate_service', current_schema());
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I
            TO turngate_service', current_schema());
        GRANT EXECUTE ON FUNCTION index_memory_vectors TO turngate_service;
        REVOKE UPDATE, DELETE ON events FROM turngate_service;
        REVOKE UPDATE, DELETE ON service_keys FROM turngate_service;
        REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM turngate_service;
    END IF;
END $$
"""


def upgrade() -> None:
    for part in (ALTER, SECURE):
        op.execute(part.replace("{policy}", ONCE))


def downgrade() -> None:
    for part in (ALTER, SECURE):
        op.execute(part.replace("{policy}", EACH))
