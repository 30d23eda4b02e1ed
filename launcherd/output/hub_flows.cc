// HubFlows: jobs, their flows, and the handling of each frame.
// Read handle() first, then settle(), then the functions that add and find flows.
#include "launcherd/output/hub_flows.h"

#include <algorithm>
#include <utility>

#include "proto/peer_names.h"

namespace muster::launcherd::inline output {
namespace {

using proto::OutputKind;

struct RankEnd {
  int rank;
  proto::EndCounts counts;
};

}  // namespace

struct HubFlows::Job {
  OutputSink* sink = nullptr;
  OutputHubEvents events;
  std::map<int, int> flows;  // by agent
  bool is_flush_due = false;
  std::vector<RankEnd> ended;  // ends to report after the next flush
  std::vector<int> completed;
  std::vector<int> cut;
};

HubFlows::HubFlows() = default;
HubFlows::~HubFlows() = default;

void HubFlows::add_job(const std::string& name, OutputSink* sink, OutputHubEvents events) {
  auto job = std::make_unique<Job>();
  job->sink = sink;
  job->events = std::move(events);
  jobs_[name] = std::move(job);
}

void HubFlows::remove_job(const std::string& name) {
  jobs_.erase(name);
}

void HubFlows::expect(const std::string& job, const ExpectedAgent& expected) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  const int number = next_flow_++;
  Flow& flow = flows_[number];
  flow.job_ = found->second.get();
  flow.events = &flow.job_->events;
  flow.agent = expected.agent;
  flow.identity = proto::output_identity(job, flow.agent);
  flow.running_.insert(expected.ranks.begin(), expected.ranks.end());
  flow.host_ = expected.host;
  flow.last_delivered = expected.last_delivered;
  flow.delivered_bytes_ = expected.delivered_bytes;
  flow.counters_ = expected.counters;
  flow.job_->flows[flow.agent] = number;
  flow_of_identity_[flow.identity] = number;
  if (flow.running_.empty()) {  // an agent of an earlier launcher whose output is complete
    flow.is_complete_ = true;
    flow.job_->completed.push_back(flow.agent);
  }
}

void HubFlows::expect_ranks(int number, const std::vector<int>& ranks) {
  Flow* const flow = find(number);
  if (flow != nullptr && !flow->is_complete_) flow->running_.insert(ranks.begin(), ranks.end());
}

bool HubFlows::is_expected(const Flow& flow, const proto::OutputFrame& frame) {
  const OutputKind kind = frame.header.kind;
  if (kind != OutputKind::kData && kind != OutputKind::kEnd) return true;
  return flow.running_.contains(static_cast<int>(frame.header.rank));
}

void HubFlows::erase(int number) {
  const auto found = flows_.find(number);
  if (found == flows_.end()) return;
  flow_of_identity_.erase(found->second.identity);
  found->second.job_->flows.erase(found->second.agent);
  flows_.erase(found);
}

int HubFlows::of_agent(const std::string& job, int agent) const {
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return kNone;
  const auto flow = found->second->flows.find(agent);
  return flow == found->second->flows.end() ? kNone : flow->second;
}

int HubFlows::of_identity(const std::string& identity) const {
  const auto found = flow_of_identity_.find(identity);
  return found == flow_of_identity_.end() ? kNone : found->second;
}

std::vector<int> HubFlows::of_job(const std::string& job) const {
  std::vector<int> flows;
  const auto found = jobs_.find(job);
  if (found == jobs_.end()) return flows;
  for (const auto& [agent, flow] : found->second->flows) flows.push_back(flow);
  return flows;
}

HubFlows::Flow* HubFlows::find(int flow) {
  const auto found = flows_.find(flow);
  return found == flows_.end() ? nullptr : &found->second;
}

// Handles a gap frame. The frames up to its sequence are lost: an earlier launcher acknowledged them, so the agent has
// dropped them.
base::Status HubFlows::handle_gap(Flow* flow, const proto::OutputFrame& frame) {
  const std::uint64_t bytes = std::max(proto::decode_gap_bytes(frame.payload), flow->delivered_bytes_);
  const std::uint64_t missing = bytes - std::exchange(flow->delivered_bytes_, bytes);
  flow->last_delivered = frame.header.sequence;
  flow->has_gap_ = true;
  if (missing == 0) return base::ok_status();
  flow->job_->is_flush_due = true;
  flow->job_->sink->frame(flow->agent, flow->last_delivered);
  return flow->job_->sink->lost(missing, flow->host_);
}

// The agent has finished, so the Ends that have not arrived are lost.
void HubFlows::end_all(Flow* flow) {
  for (const int rank : std::exchange(flow->running_, {})) (void)flow->job_->sink->end_rank(rank);
}

base::Status HubFlows::handle(Flow* flow, const proto::OutputFrame& frame) {
  const proto::OutputHeader& header = frame.header;
  if (header.kind == OutputKind::kHello || header.kind == OutputKind::kResume || header.kind == OutputKind::kAck) {
    return base::invalid_argument("unexpected frame of kind {}", static_cast<int>(header.kind));
  }
  if (header.sequence <= flow->last_delivered) return base::ok_status();  // sent again after the connection was cut
  if (header.kind == OutputKind::kGap) {
    const base::Status status = handle_gap(flow, frame);
    if (!status.ok() && flow->events->on_error) flow->events->on_error(status);
    return base::ok_status();
  }
  if (header.sequence != flow->last_delivered + 1) {
    return base::data_loss("frame {} came after frame {}", header.sequence, flow->last_delivered);
  }
  flow->last_delivered = header.sequence;
  flow->job_->sink->frame(flow->agent, header.sequence);
  const int rank = static_cast<int>(header.rank);
  if (header.kind != OutputKind::kFinish && flow->running_.count(rank) == 0) {
    return base::permission_denied("output of rank {}, which does not run at this agent", rank);
  }
  Job* const job = flow->job_;
  job->is_flush_due = true;
  base::Status status;
  if (header.kind == OutputKind::kData) {
    status = job->sink->write(rank, header.stream, frame.payload, header.flags);
    flow->delivered_bytes_ += frame.payload.size();
    for (const auto& counter : flow->counters_) counter->fetch_add(frame.payload.size(), std::memory_order_relaxed);
  } else if (header.kind == OutputKind::kEnd) {
    status = job->sink->end_rank(rank);
    job->ended.push_back({rank, proto::decode_end_counts(frame.payload)});
    flow->running_.erase(rank);
  } else {
    if (flow->has_gap_) end_all(flow);
    status = job->sink->end_agent(flow->agent);
  }
  if (!status.ok() && job->events.on_error) job->events.on_error(status);
  const bool is_complete = header.kind == OutputKind::kFinish || flow->running_.empty();
  if (is_complete && !std::exchange(flow->is_complete_, true)) job->completed.push_back(flow->agent);
  return base::ok_status();
}

void HubFlows::cut(Flow* flow) {
  if (!flow->is_complete_) flow->job_->cut.push_back(flow->agent);
}

void HubFlows::settle(bool all) {
  for (const auto& [name, job] : jobs_) {
    if (all || !job->ended.empty() || !job->completed.empty() || !job->cut.empty()) settle(job.get());
  }
}

void HubFlows::settle(Job* job) {
  if (std::exchange(job->is_flush_due, false)) {
    const base::Status flushed = job->sink->flush();
    if (!flushed.ok() && job->events.on_error) job->events.on_error(flushed);
  }
  for (const RankEnd& end : std::exchange(job->ended, {})) {
    if (job->events.on_rank_ended)
      job->events.on_rank_ended(end.rank, end.counts.stdout_bytes, end.counts.stderr_bytes);
  }
  for (const int agent : std::exchange(job->completed, {})) {
    if (job->events.on_agent_complete) job->events.on_agent_complete(agent);
  }
  for (const int agent : std::exchange(job->cut, {})) {
    if (job->events.on_agent_cut) job->events.on_agent_cut(agent);
  }
}

}  // namespace muster::launcherd::output
