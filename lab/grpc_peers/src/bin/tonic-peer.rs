//! A cache server by tonic, on one thread: `tonic-peer PORT`.

use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Mutex;
use tonic::{Request, Response, Status};

mod schema {
    #![allow(clippy::all, dead_code)]
    tonic::include_proto!("gannet.v1");
}

use schema::cache_server::{Cache, CacheServer};
use schema::{GetReply, GetRequest, Result as Outcome, SetReply, SetRequest};

/// Values without a time to live, by key. One thread uses the map, so that its lock is never contended.
#[derive(Default)]
struct PeerValues(Mutex<HashMap<Bytes, Bytes>>);

#[tonic::async_trait]
impl Cache for PeerValues {
    async fn get(&self, request: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        let values = self.0.lock().expect("no thread has panicked");
        let (result, value) = match values.get(&request.get_ref().key) {
            Some(value) => (Outcome::Hit, value.clone()),
            None => (Outcome::Miss, Bytes::new()),
        };
        Ok(Response::new(GetReply { result: result.into(), value }))
    }

    async fn set(&self, request: Request<SetRequest>) -> Result<Response<SetReply>, Status> {
        let SetRequest { key, value, .. } = request.into_inner();
        self.0.lock().expect("no thread has panicked").insert(key, value);
        Ok(Response::new(SetReply { result: Outcome::Ok.into(), ..SetReply::default() }))
    }
}

fn main() {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).expect("usage: tonic-peer PORT");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = tonic::transport::Server::builder().tcp_nodelay(true).max_concurrent_streams(100);
        let mut server = server;
        let address = ([127, 0, 0, 1], port).into();
        server.add_service(CacheServer::new(PeerValues::default())).serve(address).await.expect("the port is free");
    });
}
