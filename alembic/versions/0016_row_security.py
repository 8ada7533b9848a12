"""Rows are seen by their tenant alone, and the service has a role that owns nothing."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

# The role belongs to the whole server, where another database's migration may make it just now.
ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'turngate_service') THEN
        CREATE ROLE turngate_service NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE;
    END IF;
    IF NOT pg_has_role(current_user, 'turngate_service', 'MEMBER') THEN
        EXECUTE format('GRANT turngate_service TO %I', current_user);
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'store.no_service_role: this role may not make or join turngate_service';
END $$
"""

# Ends every migration (env.py), so that no table that is added later can be forgotten.
SECURE = """
CREATE FUNCTION secure_tenant_tables() RETURNS void LANGUAGE plpgsql AS $$
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
        EXECUTE format('CREATE POLICY of_its_tenant ON %s USING (CASE
            WHEN current_setting(''turngate.every_tenant'', true) = ''on'' THEN true
            ELSE tenant = current_setting(''turngate.tenant'', true) END)', name);
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

TENANTS = "ALTER TABLE tenants ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
OWN_TENANT = """
CREATE POLICY of_its_tenant ON tenants USING (CASE
    WHEN current_setting('turngate.every_tenant', true) = 'on' THEN true
    ELSE id = current_setting('turngate.tenant', true) END)
"""

# An index is its table's owner's to make, and which embedder there is, is known only later.
INDEX = """
CREATE FUNCTION index_memory_vectors(index_name text, embedder text, dimension integer)
    RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON memory_vectors
        USING hnsw ((embedding::vector(%s)) vector_cosine_ops)
        WITH (m = 16, ef_construction = 64) WHERE embedder = %L',
        index_name, dimension, embedder);
END $$
"""
NOBODYS = "REVOKE ALL ON FUNCTION index_memory_vectors FROM PUBLIC"


def upgrade() -> None:
    for part in (ROLE, SECURE, TENANTS, OWN_TENANT, INDEX, NOBODYS):
        op.execute(part)


def downgrade() -> None:
    # The role stays: other databases of the server may use it.
    op.execute("DROP FUNCTION secure_tenant_tables")
    op.execute("DROP FUNCTION index_memory_vectors")
    op.execute(
        """
        DO $$ DECLARE name regclass; BEGIN
        FOR name IN SELECT polrelid FROM pg_policy WHERE polname = 'of_its_tenant' LOOP
            EXECUTE format('DROP POLICY of_its_tenant ON %s', name);
            EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY,
                DISABLE ROW LEVEL SECURITY', name);
        END LOOP;
        END $$
        """
    )
