//! A schema of its own for each test, in the database that `lab/peers/postgres` started.

use baton_store_postgres::{Address, PostgresSettings, PostgresStore};

pub(crate) struct Schema {
    url: String,
    name: String,
}

impl Schema {
    pub(crate) async fn new() -> Schema {
        let url = url();
        let name = format!("t{}", uuid::Uuid::now_v7().simple());
        let client = client(&url).await;
        client.batch_execute(&format!("CREATE SCHEMA {name}")).await.unwrap();
        Schema { url, name }
    }

    pub(crate) fn address(&self) -> Address {
        Address::parse(&self.url).unwrap().with_schema(&self.name)
    }

    /// With connections that `pg_stat_activity` lists under the schema's name.
    pub(crate) fn address_named(&self) -> Address {
        self.in_schema(Address::parse(&format!("{}?application_name={}", self.url, self.name)).unwrap())
    }

    pub(crate) fn in_schema(&self, address: Address) -> Address {
        address.with_schema(&self.name)
    }

    pub(crate) async fn open(&self) -> PostgresStore {
        PostgresStore::open(self.address(), PostgresSettings::default()).await.unwrap()
    }

    /// A connection beside the store's, in the same schema.
    pub(crate) async fn client(&self) -> tokio_postgres::Client {
        let client = client(&self.url).await;
        client.batch_execute(&format!("SET search_path = {}", self.name)).await.unwrap();
        client
    }
}

pub(crate) fn url() -> String {
    std::env::var("BATON_POSTGRES_URL").expect("BATON_POSTGRES_URL names a throw-away database; `lab/peers/postgres run cargo test …` starts one")
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
