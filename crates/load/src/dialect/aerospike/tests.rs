use super::super::flags::words;
use super::*;
use crate::workload::model::{LengthStep, Placement};
use crate::workload::units::Share;

fn read(text: &str) -> Aerospike {
    Aerospike::read(&words(text), None, 8).unwrap_or_else(|faults| panic!("{text}: {faults:?}"))
}

fn faults(text: &str) -> Vec<String> {
    match Aerospike::read(&words(text), None, 8) {
        Ok(read) => panic!("{text}: {read:?}"),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

fn weights(read: &Aerospike) -> Vec<(Verb, f64, u32)> {
    read.mapped.workload.keys[0].verbs.iter().map(|command| (command.verb, command.weight, command.fields)).collect()
}

#[test]
fn the_published_insert_is_every_key_once_in_order() {
    let read = read("-h 10.0.0.1 -p 6379 -z 40 -n test -w I -o S:10 -b 10 -l 23 -k 10000000 -latency 5,1");
    let workload = &read.mapped.workload;
    assert_eq!((read.form, workload.protocol), (Form::Java, Protocol::Resp));
    assert_eq!(workload.targets, [Target { address: "10.0.0.1:6379".into(), weight: 1 }]);
    assert_eq!((workload.connections, workload.threads, workload.depth, &workload.pace), (40, 8, 1, &Pace::Closed));
    let space = &workload.keys[0];
    assert_eq!((space.count, space.fields, &space.order), (10_000_000, 10, &Order::Sequential));
    assert_eq!((&space.key_bytes, &space.value_bytes), (&Sizes::Fixed(23), &Sizes::Fixed(10)));
    assert_eq!(weights(&read), [(Verb::HashSet, 1.0, 0)]);
    assert_eq!(read.mapped.run.requests_max, Some(10_000_000));
    assert_eq!(read.latency, LatencyTable::read("5,1").ok());
    assert!(read.mapped.notes.is_empty(), "{:?}", read.mapped.notes);
}

#[test]
fn the_published_reads_are_of_whole_records() {
    let read = read("-h 10.0.0.1 -n test -k 10000000 -o S:10 -b 10 -w RU,100 -z 40 -latency 5,1");
    assert_eq!(weights(&read), [(Verb::HashGetAll, 1.0, 0)]);
    assert_eq!((read.mapped.run.requests_max, &read.mapped.workload.keys[0].order), (None, &Order::Uniform));
    assert_eq!(read.mapped.notes.len(), 1);
    assert!(read.mapped.notes[0].contains("6379"));
}

#[test]
fn shares_of_reads_and_of_single_bins_become_weights() {
    let of = |text: &str| weights(&read(&format!("-p 1 -b 4 -w {text}")));
    assert_eq!(of("RU,80"), [(Verb::HashGetAll, 0.8, 0), (Verb::HashSet, 1.0 - 0.8, 0)]);
    let rest = 1.0 - 0.75;
    assert_eq!(of("RU,75,50,100"), [(Verb::HashGetAll, 0.375, 0), (Verb::HashGet, 0.375, 0), (Verb::HashSet, rest, 0)]);
    assert_eq!(of("RU,0,0,0"), [(Verb::HashSet, 1.0, 1)]);
    assert_eq!(of("RR,50"), [(Verb::HashGetAll, 0.5, 0), (Verb::HashSet, 0.5, 0)]);
    assert_eq!(of("RMU"), [(Verb::HashUpdate, 1.0, 0)]);
    assert_eq!((of("RMI"), of("RMD")), (vec![(Verb::HashIncr, 1.0, 0)], vec![(Verb::HashDecr, 1.0, 0)]));
    assert_eq!(of("DB"), [(Verb::HashDelete, 1.0, 0)]);
    assert_eq!(of("RUD,50,25"), [(Verb::HashGetAll, 0.5, 0), (Verb::HashSet, 0.25, 0), (Verb::Raw, 0.25, 0)]);
}

#[test]
fn other_java_client_flags_are_mapped() {
    let read = read(
        "-h h1,h2:7000 -p 6380 -U me -P secret -s users -b 2 -o I,R:100:30 -e 3600 -g 50000 -t 1000000 -T 50 -B 8 \
         -a -C 200 -W 4 -R -N -latency 7,3,us",
    );
    let (workload, run) = (&read.mapped.workload, &read.mapped.run);
    let addresses: Vec<&str> = workload.targets.iter().map(|target| target.address.as_str()).collect();
    assert_eq!((addresses, workload.placement), (vec!["h1:6380", "h2:7000"], Placement::Slots));
    assert_eq!(workload.auth, Some(Auth { user: "me".into(), password: "secret".into() }));
    assert_eq!((workload.connections, workload.threads, workload.depth, workload.batch), (200, 4, 8, 8));
    assert_eq!(workload.pace, Pace::Open { rate_per_s: 50_000.0, arrivals: Arrivals::Constant });
    let space = &workload.keys[0];
    assert_eq!((space.prefix.as_str(), space.ttl.len()), ("users:", 0));
    let step = |bytes| LengthStep { from: bytes, to: bytes, weight: 1.0 };
    assert_eq!(space.value_bytes, Sizes::Steps(vec![step(8), step(100)]));
    assert_eq!((run.requests_max, run.timeout), (Some(1_000_000), Some(TimeSpan::millis(50))));
    assert_eq!(read.mapped.notes.len(), 6, "{:?}", read.mapped.notes);
}

#[test]
fn asbench_dialect_is_detected_by_its_own_flags() {
    let read = read(
        "--hosts 10.0.0.1 -p 6379 -n test -k 1000 -o 3*S10,I4 -b bin -w RU,80 -z 4 -t 60 --read-bins 1,2 -L \
         --percentiles 50,99.9 --output-file out.txt --output-period 5 --hdr-hist hist \
         --compression-ratio 0.25 -Psecret",
    );
    assert_eq!((read.form, read.mapped.workload.keys[0].fields), (Form::Asbench, 4));
    assert_eq!(read.mapped.workload.keys[0].compressible, Share(0.75));
    assert_eq!(weights(&read)[0], (Verb::HashMultiGet, 0.8, 2));
    let run = &read.mapped.run;
    assert_eq!((run.duration, run.interval), (Some(TimeSpan::secs(60)), Some(TimeSpan::secs(5))));
    assert_eq!((run.percentiles.as_slice(), run.requests_max), ([50.0, 99.9].as_slice(), None));
    assert_eq!((run.out.clone(), run.hdr.clone()), (Some("out.txt".into()), Some("hist".into())));
    assert_eq!(read.latency, LatencyTable::read("7,1").ok());
    for (text, form) in [
        ("-o S10", Form::Asbench),
        ("-b name", Form::Asbench),
        ("--object-spec=I4", Form::Asbench),
        ("-L 7,1", Form::Asbench),
        ("-o S:10", Form::Java),
        ("-o I -b 3", Form::Java),
        ("", Form::Java),
    ] {
        assert_eq!(form_of(&words(text)), form, "{text}");
    }
}

#[test]
fn unsupported_or_invalid_flag_is_rejected_with_remedy() {
    for (text, part) in [
        ("-w RUF", "-w: RUF is not supported"),
        ("-w TXN", "-w: TXN is not supported"),
        ("-w RUF,1,2,x", "-w: 'RUF,1,2,x' is not a workload; write I, RU,80"),
        ("-w RU,101", "-w: 'RU,101' is not a workload"),
        ("-w XX", "-w: 'XX' is not a workload"),
        ("-S 5000", "-S: keys always begin at the first key here; remove it"),
        ("-k ten", "-k: 'ten' is not a whole number"),
        ("-k 0", "-k: 0 keys; write a number from 1 to"),
        ("-o Q", "-o: 'Q' is not a kind of bin"),
        ("-latency 7", "-latency: '7' is not a table of latencies; write COLUMNS,SHIFT"),
        ("-b 2000", "-b: 2000 fields; write a number from 1 to 1024"),
        ("-z 0", "-z: 0 connections"),
        ("-e soon", "-e: 'soon' is not a time to live"),
        ("--percentiles 101 --duration 5", "--percentiles: '101' is not a list of percentiles"),
        ("--read-bins 9 -o S10", "--read-bins: '9' is not a list of bins; write numbers from 1 to 1"),
        ("-l 2", "-l: 100000 keys cannot all have distinct texts of 2 bytes"),
        ("--treads 4", "--treads: unknown flag; did you mean --threads?"),
    ] {
        let told = faults(text);
        assert!(told.iter().any(|fault| fault.starts_with(part)), "{text}: {told:?}");
    }
    assert_eq!(faults("-k x -z y -w Q --nope").len(), 4);
}
