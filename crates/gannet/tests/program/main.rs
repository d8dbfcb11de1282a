//! The program as a process of its own: what it is told, what it says, what it takes of the machine.

mod arguments;
mod common;
mod doctor;
mod file_out;
mod lab;
mod load;
mod load_cluster;
mod load_counts;
mod load_docs;
mod load_faults;
mod load_files;
mod load_tls;
mod load_tools;
mod load_traces;
mod load_warm;
mod memcached;
mod memory;
mod peers;
mod prove;
mod redis_rs;
mod restart;
mod restart_together;
mod signals;
mod top;
mod upgrade;
mod warm_peers;
