//! Connections that are lost, refused or encrypted.

use std::sync::Arc;

use baton_store::{Store, StoreError};
use baton_store_postgres::{Address, PostgresSettings, PostgresStore};

use crate::hand::{RunWriter, TestStore, journal};
use crate::throwaway::{Schema, url};

/// Ends the connections of a schema's stores, as a restart of the database would.
async fn cut(schema: &Schema) {
    let client = schema.client().await;
    client
        .execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = current_setting('search_path')", &[])
        .await
        .unwrap();
}

async fn open_named(schema: &Schema) -> TestStore {
    // Its connections are known by the name of the schema.
    let store = PostgresStore::open(schema.address_named(), PostgresSettings::default()).await.unwrap();
    Arc::new(store)
}

#[tokio::test]
async fn lost_connections_are_made_again_and_no_commit_is_lost_or_doubled() {
    let schema = Arc::new(Schema::new().await);
    let home = open_named(&schema).await;
    let writers: Vec<_> = (0..8)
        .map(|n| {
            let home = home.clone();
            tokio::spawn(async move {
                let mut writer = RunWriter::start(&home, &format!("t{n}"), &format!("r{n}")).await;
                for line in 0..100 {
                    let text = line.to_string();
                    match writer.lines([&text]).await {
                        Ok(()) => {}
                        // Committed, but the reply was lost: the journal knows.
                        Err(StoreError::Unreachable { .. }) => writer.next_seq = journal(&home, &format!("r{n}")).await.len() as u64,
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for _ in 0..20 {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        cut(&schema).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let wanted: Vec<String> = (0..100).map(|line| line.to_string()).collect();
    for n in 0..8 {
        assert_eq!(journal(&home, &format!("r{n}")).await, wanted, "run {n}");
    }
}

#[tokio::test]
async fn a_database_of_a_newer_baton_is_refused() {
    let schema = Schema::new().await;
    drop(schema.open().await);
    schema.client().await.batch_execute("UPDATE baton_schema SET version = 99").await.unwrap();
    let refused = PostgresStore::open(schema.address(), PostgresSettings::default()).await.err().unwrap();
    assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
}

#[tokio::test]
async fn tables_of_others_are_not_touched() {
    let schema = Schema::new().await;
    schema.client().await.batch_execute("CREATE TABLE runs (mine integer)").await.unwrap();
    let refused = PostgresStore::open(schema.address(), PostgresSettings::default()).await.err().unwrap().to_string();
    assert!(refused.contains("not Baton's"), "{refused}");
    let left = schema.client().await.query_one("SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn errors_name_the_next_step_and_hide_the_password() {
    let (before, after) = url().split_once('@').map(|(before, after)| (before.to_owned(), after.to_owned())).unwrap();
    let user = before.rsplit_once(':').unwrap().0;
    for (url, wanted) in [
        (format!("{user}:wr0ng@{after}"), "BATON_STORE_PASSWORD"),
        (format!("{user}@{after}"), "BATON_STORE_PASSWORD"),
        (format!("{before}@{}", after.replace("/baton", "/nowhere")), "createdb"),
        (format!("{before}@127.0.0.1:1/baton"), "is Postgres running"),
    ] {
        let refused = PostgresStore::open(Address::parse(&url).unwrap(), PostgresSettings::default()).await.err().unwrap().to_string();
        assert!(refused.contains(wanted), "{refused}");
        let password = url.split_once('@').unwrap().0.rsplit_once(':').unwrap().1;
        assert!(password.starts_with("//") || !refused.contains(password), "{refused}");
    }
}

#[tokio::test]
async fn certificates_are_verified() {
    let Ok(authority) = std::env::var("BATON_POSTGRES_AUTHORITY") else {
        // lab/peers/postgres makes certificates wherever openssl is.
        eprintln!("skipped: BATON_POSTGRES_AUTHORITY is not set");
        return;
    };
    let schema = Schema::new().await;
    let open = async |host: &str, query: &str| {
        let url = format!("{}?{query}", url().replace("127.0.0.1", host));
        PostgresStore::open(schema.in_schema(Address::parse(&url).unwrap()), PostgresSettings::default()).await
    };
    let store = open("localhost", &format!("sslmode=verify-full&sslrootcert={authority}")).await.unwrap();
    assert_eq!(store.threads(None, 1).await, Ok(vec![]));
    let unknown = open("localhost", "sslmode=verify-full").await.err().unwrap().to_string();
    assert!(unknown.contains("certificate"), "{unknown}");
    // The certificate is for localhost only.
    assert!(open("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={authority}")).await.is_err());
}
