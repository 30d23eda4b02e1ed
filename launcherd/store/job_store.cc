#include "launcherd/store/job_store.h"

#include "launcherd/store/schema.h"

namespace muster::launcherd::inline store {
namespace {

// Approximate memory of a change in addition to its bytes.
constexpr std::size_t kChangeOverhead = 512;

struct Bytes {
  std::size_t operator()(const NewJob& job) const {
    return job.name.size() + job.request_id.size() + job.user.size() + job.reason.size() + job.spec.size() +
           job.environment.size() + job.after.size() * sizeof(model::JobDependency);
  }
  std::size_t operator()(const NewEvent& event) const {
    return event.message.size() + (event.job_step ? event.job_step->reason.size() : 0) +
           (event.rank_step ? event.rank_step->host.size() + event.rank_step->detail.size() : 0);
  }
  std::size_t operator()(const NewEvents& events) const {
    std::size_t bytes = 0;
    for (const NewEvents::Event& event : events.events) {
      bytes += sizeof event + event.message.size();
      if (event.rank_step) bytes += event.rank_step->host.size() + event.rank_step->detail.size();
    }
    return bytes;
  }
  std::size_t operator()(const NewReason& reason) const { return reason.reason.size(); }
  std::size_t operator()(const NewHold& hold) const { return hold.held_by ? hold.held_by->size() : 0; }
  std::size_t operator()(const NewAfter& after) const { return after.after.size() * sizeof(model::JobDependency); }
  std::size_t operator()(const NewTerms& terms) const { return terms.spec ? terms.spec->size() : 0; }
  std::size_t operator()(const NotifyDone&) const { return 0; }
  std::size_t operator()(const NewRecovery& recovery) const { return recovery.content.size(); }
  std::size_t operator()(const StoredHost& host) const { return host.name.size() + host.reason.size(); }
  std::size_t operator()(const ForgetHost& forget) const { return forget.name.size(); }
  std::size_t operator()(const ForgetJob&) const { return 0; }
};

std::size_t bytes_of(const Batch& batch) {
  std::size_t bytes = 0;
  for (const Change& change : batch) bytes += kChangeOverhead + std::visit(Bytes{}, change);
  return bytes;
}

}  // namespace

base::Result<std::unique_ptr<JobStore>> JobStore::open(const std::string& path, base::Loop& loop) {
  MUSTER_ASSIGN_OR_RETURN(Database database, open_store(path, store_migrations()));
  MUSTER_ASSIGN_OR_RETURN(BatchWriter batches, BatchWriter::create(std::move(database)));
  MUSTER_ASSIGN_OR_RETURN(StoreReader queries, StoreReader::open(path));
  MUSTER_ASSIGN_OR_RETURN(auto writer, WriteThread::start(std::move(batches), loop));
  MUSTER_ASSIGN_OR_RETURN(auto reader, ReadThread::start(std::move(queries), loop));
  return std::unique_ptr<JobStore>(new JobStore(loop, std::move(writer), std::move(reader)));
}

JobStore::JobStore(base::Loop& loop, std::unique_ptr<WriteThread> writer, std::unique_ptr<ReadThread> reader)
    : loop_(loop), writer_(std::move(writer)), reader_(std::move(reader)) {}

JobStore::~JobStore() {
  flush();
  reader_.reset();  // first, because the last connection to close writes the log into the file
}

void JobStore::append(Batch batch, Committed committed) {
  put(std::move(batch), std::move(committed), false);
}

void JobStore::record(Batch batch, Committed committed) {
  put(std::move(batch), std::move(committed), true);
}

void JobStore::put(Batch batch, Committed committed, bool keep) {
  loop_.assert_inside();
  const std::size_t bytes = bytes_of(batch);
  turn_.push_back({std::move(batch), std::move(committed), keep, bytes});
  if (turn_.size() > 1) return;
  // Commit the later batches of this turn of the loop together with this one.
  loop_.post(gate_.wrap([this] { flush(); }));
}

void JobStore::flush() {
  if (!turn_.empty()) writer_->put(std::exchange(turn_, {}));
}

void JobStore::ask(ReadThread::Query query, Committed refused) {
  base::Status status = reader_->put(std::move(query));
  if (status.ok()) return;
  loop_.post(gate_.wrap([refused = std::move(refused), status = std::move(status)] { refused(status); }));
}

}  // namespace muster::launcherd::store
