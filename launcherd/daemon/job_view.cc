// The whole of job_view.h: turns stored jobs and ranks into messages.
// Read it in this order: job_of, add_ranks, read_job, read_jobs.
#include "launcherd/daemon/job_view.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/shortened.h"
#include "base/strings.h"
#include "launcherd/daemon/array_view.h"
#include "launcherd/store/page_token.h"
#include "model/failure_hint.h"
#include "proto/convert.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr std::size_t kLongestHint = 1024;

template <typename Timestamp>
void set_time(base::WallTime from, Timestamp& to) {
  const auto micros = std::chrono::floor<std::chrono::microseconds>(from).time_since_epoch().count();
  to.set_seconds(micros / 1'000'000);
  to.set_nanos(static_cast<int>(micros % 1'000'000 * 1'000));
}

// Adds the words as valid UTF-8 for display, because the words themselves are bytes.
void add_words(const google::protobuf::RepeatedPtrField<std::string>& words, v1::Job& job) {
  for (const std::string& word : words) job.add_command(base::valid_utf8(word));
}

// Returns ELASTIC_POLICY_UNSPECIFIED if the job never changes its size.
v1::ElasticPolicy elastic_policy_of(const v1::JobSpec& spec) {
  const v1::OnFailure on_failure = spec.failure().on_failure();
  const bool changes =
      on_failure == v1::ON_FAILURE_REPLACE || on_failure == v1::ON_FAILURE_SHRINK || on_failure == v1::ON_FAILURE_LIVE;
  if (!changes) return v1::ELASTIC_POLICY_UNSPECIFIED;
  return spec.elastic_policy() == v1::ELASTIC_POLICY_UNSPECIFIED ? v1::ELASTIC_POLICY_FIXED : spec.elastic_policy();
}

v1::Job job_of(const StoredJob& stored, const v1::StoredSpec& spec) {
  v1::Job job;
  job.set_id(stored.id.str());
  job.set_state(static_cast<v1::JobState>(stored.state));  // both enumerations use the same numbers (model/job_state.h)
  add_words(spec.request().spec().command(), job);
  if (job.command().empty()) {
    for (const v1::Role& role : spec.request().spec().roles()) {
      if (!job.command().empty()) job.add_command(":");
      add_words(role.command(), job);
    }
  }
  job.set_size(spec.size());
  int first = 0;
  for (const v1::Role& role : spec.request().spec().roles()) {
    v1::RoleRanks& ranks = *job.add_roles();
    ranks.set_name(role.name());
    ranks.set_first(first);
    ranks.set_count(role.size());
    first += role.size();
  }
  job.set_attempt(stored.attempt);
  job.set_elastic_policy(elastic_policy_of(spec.request().spec()));
  if (stored.started) set_time(*stored.started, *job.mutable_started());
  job.set_reason(base::valid_utf8(stored.reason));
  job.set_last_event(stored.last_sequence);
  job.set_name(stored.name);
  job.set_priority(stored.priority);
  *job.mutable_labels() = spec.request().labels();
  set_time(stored.submitted, *job.mutable_submitted());
  if (stored.ended) set_time(*stored.ended, *job.mutable_ended());
  if (stored.exit_code) job.set_exit_code(*stored.exit_code);
  for (const v1::EnvVar& variable : spec.request().environment())
    job.add_environment_names(base::valid_utf8(variable.name()));
  job.set_user(stored.user);
  if (spec.has_deadline() ? spec.deadline().has_time() : spec.request().spec().has_deadline()) {
    *job.mutable_deadline() = spec.has_deadline() ? spec.deadline().time() : spec.request().spec().deadline();
  }
  if (spec.request().has_array()) {
    *job.mutable_array()->mutable_elements() = spec.request().array().elements();
    job.mutable_array()->set_most_at_once(spec.request().array().most_at_once());
  }
  if (stored.element) {
    job.mutable_element()->set_array(stored.element->array.str());
    job.mutable_element()->set_index(stored.element->index);
  }
  job.set_held(stored.state == model::JobState::kQueued && stored.held_by.has_value());
  job.set_working_directory(base::valid_utf8(spec.request().spec().working_directory()));
  return job;
}

v1::RankEndKind kind_of(const StoredRank& rank) {
  switch (rank.state) {
    case model::RankState::kStopped:
      return v1::RANK_END_KIND_STOPPED;
    case model::RankState::kLost:
      return v1::RANK_END_KIND_HOST_LOST;
    case model::RankState::kFailed:
      if (rank.signal != 0) return v1::RANK_END_KIND_SIGNALLED;
      return rank.pid == 0 ? v1::RANK_END_KIND_START_FAILED : v1::RANK_END_KIND_EXITED;
    default:
      return v1::RANK_END_KIND_EXITED;
  }
}

void set_rank(const StoredRank& stored, v1::RankStatus& rank) {
  rank.set_host(base::valid_utf8(stored.host));
  rank.set_pid(stored.pid);
  if (stored.state == model::RankState::kWaiting) return;
  rank.set_state(v1::RANK_STATE_RUNNING);
  if (!model::is_final(stored.state)) return;
  rank.set_state(v1::RANK_STATE_ENDED);
  v1::RankEnd& end = *rank.mutable_end();
  end.set_rank(stored.rank);
  end.set_host(rank.host());
  end.set_pid(stored.pid);
  end.set_kind(kind_of(stored));
  end.set_exit_code(stored.exit_code);
  end.set_signal(stored.signal);
  end.set_detail(base::shortened(base::valid_utf8(stored.detail), proto::kLongestDetail));
}

// Returns an empty spec if the stored one is corrupt, so that the answer still shows the rest.
base::Result<v1::StoredSpec> shown_spec(StoreReader& reader, const base::JobId& id) {
  auto spec = stored_spec(reader, id);
  if (!spec.ok() && spec.status().code() == base::Code::kDataLoss) return v1::StoredSpec();
  return spec;
}

// Later generations of a job that changes its hosts may have another size than the spec. `size` is that of a job that
// has slots now. An ended job has a stored rank for each of its last generation, unless that generation never started.
base::Status set_size(StoreReader& reader, const StoredJob& stored, const v1::StoredSpec& spec, std::optional<int> size,
                      v1::Job& job) {
  const v1::OnFailure policy = spec.request().spec().failure().on_failure();
  const bool may_change =
      policy == v1::ON_FAILURE_REPLACE || policy == v1::ON_FAILURE_SHRINK || policy == v1::ON_FAILURE_LIVE;
  if (stored.attempt == 0 || !may_change) return base::ok_status();
  if (!size) {
    MUSTER_ASSIGN_OR_RETURN(const int ranks, reader.rank_count(stored.id, stored.attempt));
    if (ranks > 0) size = ranks;
  }
  if (size) job.set_size(*size);
  return base::ok_status();
}

// Leaves out the last ranks if the answer would be too long. `bytes` is the size of the job without ranks. The client
// asks again for the missing ranks.
void cut_ranks(v1::Job& job, std::size_t bytes) {
  for (int i = 0; i < job.ranks_size(); ++i) {
    bytes += job.ranks(i).ByteSizeLong();
    if (bytes <= kLongestAnswer || i == 0) continue;
    job.mutable_ranks()->DeleteSubrange(i, job.ranks_size() - i);
    return;
  }
}

// Returns the event of the job's end. Empty if the job has not ended, or if the event is corrupt: the answer then still
// shows the rest.
base::Result<v1::ExitReport> stored_report(StoreReader& reader, const StoredJob& stored) {
  v1::ExitReport report;
  if (!model::is_final(stored.state) || stored.last_sequence == 0) return report;
  // A failure of the command of --notify may follow the end.
  constexpr std::uint64_t kMostLast = 2;
  const std::uint64_t before = stored.last_sequence - std::min(stored.last_sequence, kMostLast);
  MUSTER_ASSIGN_OR_RETURN(const auto last, reader.events(stored.id, before, kMostLast));
  for (const StoredEvent& each : last) {
    const auto event = proto::event_of_store(each.message, each.sequence);
    if (event.ok() && event->has_job_ended()) report = event->job_ended();
  }
  return report;
}

// Adds what is likely to have made the job fail, and what to do.
void add_hints(const v1::ExitReport& report, v1::Job& job) {
  const std::set<int> alike_ranks(report.alike_ranks().begin(), report.alike_ranks().end());
  std::optional<model::RankEnd> root;
  std::vector<model::RankEnd> alike;
  for (const v1::RankEnd& end : report.ends()) {
    if (end.rank() == report.root_cause_rank()) root = proto::rank_end_of(end);
    if (alike_ranks.contains(end.rank())) alike.push_back(proto::rank_end_of(end));
  }
  if (!root) return;
  const std::vector<std::string> tail(report.stderr_tail().begin(), report.stderr_tail().end());
  for (const std::string& hint : model::failure_hints(*root, alike, base::join(tail, "\n"))) {
    job.add_hints(base::shortened(base::valid_utf8(hint), kLongestHint));
  }
}

// Adds the facts about failed ranks, which only the event of the job's end has.
void add_facts(const v1::ExitReport& report, v1::Job& job) {
  if (job.ranks().empty()) return;
  const int first = job.ranks(0).rank();
  for (const v1::RankEnd& end : report.ends()) {
    const int at = end.rank() - first;
    if (!end.has_facts() || at < 0 || at >= job.ranks_size() || !job.ranks(at).has_end()) continue;
    job.mutable_ranks(at)->mutable_end()->set_out_of_memory(end.out_of_memory());
    *job.mutable_ranks(at)->mutable_end()->mutable_facts() = end.facts();
  }
}

// Adds ranks of the job. A rank without a stored state is waiting.
base::Status add_ranks(StoreReader& reader, const StoredJob& stored, const v1::ExitReport& report, int first, int count,
                       v1::Job& job) {
  const int end = std::min(job.size(), count > job.size() - first ? job.size() : first + count);
  const std::size_t bytes = job.ByteSizeLong();
  for (int rank = first; rank < end; ++rank) {
    v1::RankStatus& status = *job.add_ranks();
    status.set_rank(rank);
    status.set_state(v1::RANK_STATE_WAITING);
  }
  for (int next = first; next < end;) {
    MUSTER_ASSIGN_OR_RETURN(const auto page, reader.ranks(stored.id, stored.attempt, next, kLongestPage));
    if (page.empty()) break;
    for (const StoredRank& rank : page) {
      if (rank.rank < end) set_rank(rank, *job.mutable_ranks(rank.rank - first));
    }
    next = page.back().rank + 1;
  }
  add_facts(report, job);
  cut_ranks(job, bytes);
  return base::ok_status();
}

// Only for jobs that are no longer open: adds the hosts of the ranks in the answer.
void add_hosts_of_ranks(v1::Job& job) {
  std::map<std::string, int> index_of;
  for (const v1::RankStatus& rank : job.ranks()) {
    if (rank.host().empty()) continue;
    const auto [at, is_new] = index_of.try_emplace(rank.host(), job.hosts_size());
    if (is_new) job.add_hosts()->set_name(rank.host());
    v1::HostStatus& host = *job.mutable_hosts(at->second);
    host.set_ranks(host.ranks() + 1);
  }
}

}  // namespace

std::string held_reason(const std::string& held_by) {
  return held_by.empty() ? "held" : fmt::format("held by {}", held_by);
}

base::Result<v1::StoredSpec> stored_spec(StoreReader& reader, const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, reader.spec(id));
  v1::StoredSpec spec;
  if (!spec.ParseFromString(bytes)) {
    return base::data_loss("job {}: stored spec is corrupt; restore a copy of the job store", id.str());
  }
  return spec;
}

v1::SubmitRequest updated_request(v1::StoredSpec spec, int priority) {
  v1::SubmitRequest request = std::move(*spec.mutable_request());
  request.set_priority(priority);
  if (!spec.has_deadline()) return request;
  request.mutable_spec()->clear_deadline();
  if (spec.deadline().has_time()) *request.mutable_spec()->mutable_deadline() = spec.deadline().time();
  return request;
}

base::Result<proto::Submission> stored_submission(StoreReader& reader, const base::JobId& id) {
  MUSTER_ASSIGN_OR_RETURN(v1::StoredSpec spec, stored_spec(reader, id));
  MUSTER_ASSIGN_OR_RETURN(const std::string bytes, reader.environment(id));
  v1::StoredEnvironment environment;
  if (!environment.ParseFromString(bytes)) {
    return base::data_loss("job {}: stored environment is corrupt; submit the job again", id.str());
  }
  *spec.mutable_request()->mutable_environment() = std::move(*environment.mutable_environment());
  *spec.mutable_request()->mutable_role_environment() = std::move(*environment.mutable_role_environment());
  const int priority = spec.request().priority();
  return proto::submission_of(updated_request(std::move(spec), priority));
}

base::Result<v1::Job> read_job(StoreReader& reader, const base::JobId& id, const v1::GetJobRequest& request,
                               std::optional<int> size) {
  MUSTER_ASSIGN_OR_RETURN(const StoredJob stored, reader.job(id));
  MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, shown_spec(reader, id));
  v1::Job job = job_of(stored, spec);
  MUSTER_RETURN_IF_ERROR(set_size(reader, stored, spec, size, job));
  MUSTER_ASSIGN_OR_RETURN(const v1::ExitReport report, stored_report(reader, stored));
  add_hints(report, job);
  if (report.has_retryable()) job.set_retryable(report.retryable());
  if (job.has_array()) {
    MUSTER_RETURN_IF_ERROR(add_counts(reader, stored, *job.mutable_array()));
    return job;
  }
  if (request.max_ranks() < 0) return job;
  const int count =
      request.max_ranks() == 0 ? kMostRanksOfAnAnswer : std::min(request.max_ranks(), kMostRanksOfAnAnswer);
  MUSTER_RETURN_IF_ERROR(add_ranks(reader, stored, report, std::max(request.first_rank(), 0), count, job));
  if (model::is_final(stored.state)) add_hosts_of_ranks(job);
  return job;
}

base::Result<v1::Job> read_listed_job(StoreReader& reader, const StoredJob& stored) {
  MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, shown_spec(reader, stored.id));
  v1::Job job = job_of(stored, spec);
  MUSTER_RETURN_IF_ERROR(set_size(reader, stored, spec, std::nullopt, job));
  return job;
}

base::Result<int> page_size_of(const v1::ListJobsRequest& request) {
  if (request.page_size() < 0) return base::invalid_argument("page_size: {} is negative", request.page_size());
  return request.page_size() == 0 ? 100 : std::min(request.page_size(), kMostJobsOfAPage);
}

base::Result<v1::ListJobsResponse> read_jobs(StoreReader& reader, const v1::ListJobsRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(const int limit, page_size_of(request));
  const auto which = request.all() ? StoreReader::Which::kAll : StoreReader::Which::kOpen;
  MUSTER_ASSIGN_OR_RETURN(const JobPage page, reader.jobs(which, limit, request.page_token()));
  v1::ListJobsResponse response;
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t total, reader.count(which));
  response.set_total(total);
  response.set_next_page_token(page.next);
  std::size_t bytes = 0;
  std::int64_t last = 0;
  for (const StoredJob& stored : page.jobs) {
    MUSTER_ASSIGN_OR_RETURN(v1::Job job, read_listed_job(reader, stored));
    bytes += job.ByteSizeLong();
    if (bytes > kLongestAnswer && !response.jobs().empty()) {
      response.set_next_page_token(page_token(last));
      break;
    }
    *response.add_jobs() = std::move(job);
    last = stored.number;
  }
  return response;
}

}  // namespace muster::launcherd::daemon
