//! Walks the seeds of the fuzz target of the libraries, and random changes of them.

#[path = "../../../fuzz/corpus.rs"]
mod corpus;
mod library_walk;

#[test]
fn damaged_input_of_libraries_neither_panics_nor_runs_without_end() {
    let mut prng = corpus::prng("gannet-script", "libraries");
    for bytes in corpus::bytes("script_libraries") {
        library_walk::walk(&bytes);
        for _ in 0..300 {
            let mut changed = bytes.clone();
            corpus::change(&mut prng, &mut changed);
            library_walk::walk(&changed);
        }
    }
}
