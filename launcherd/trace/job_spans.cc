// Read JobSpans::add first, then the functions for phases, hosts and ranks in this order.
#include "launcherd/trace/job_spans.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_report.h"
#include "model/job_state.h"
#include "proto/convert.h"

namespace muster::launcherd::inline trace {
namespace {

std::int64_t microseconds_of(const google::protobuf::Timestamp& time) {
  return time.seconds() * 1'000'000 + time.nanos() / 1000;
}

// Returns "running" for JOB_STATE_RUNNING.
std::string lower_name(std::optional<model::JobState> state) {
  return state ? base::lower(model::name_of(*state)) : "unspecified";
}

SpanAttributes with_reason(const std::string& reason) {
  return reason.empty() ? SpanAttributes() : SpanAttributes{{"reason", reason}};
}

// Returns why the rank failed by itself. Empty if it succeeded, or Muster ended it.
std::string error_of(const v1::RankEnd& end) {
  const model::RankEnd converted = proto::rank_end_of(end);
  if (!converted.failed() || converted.kind == model::EndKind::kStopped) return "";
  return model::describe(converted);
}

}  // namespace

void JobSpans::add(const v1::Event& event) {
  const std::int64_t time = microseconds_of(event.time());
  if (!first_) first_ = time;
  now_ = std::max(now_, time - *first_);
  switch (event.body_case()) {
    case v1::Event::kJobStarting:
      begin_phase("starting");
      place(event.job_starting().placement());
      for (const auto& placed : event.job_starting().placement().hosts()) begin_host(placed.name(), "starting");
      return;
    case v1::Event::kHostUp:
      return begin_host(event.host_up().host(), "up");
    case v1::Event::kRankUp:
      return begin_rank(event.rank_up());
    case v1::Event::kRankEnded:
      return end_rank(event.rank_ended());
    case v1::Event::kHostSuspect:
      host(event.host_suspect().host());
      return add_instant(event.host_suspect().suspect() ? "suspect" : "answers again", event.host_suspect().host(), {});
    case v1::Event::kJobStopping:
      begin_phase("stopping");
      return add_instant("stop", "", with_reason(event.job_stopping().reason()));
    case v1::Event::kJobRestarting:
      generation_ = event.job_restarting().attempt();
      started_ = 0;
      return add_instant(fmt::format("generation {}", generation_), "", with_reason(event.job_restarting().reason()));
    case v1::Event::kGenerationBegan:
      return begin_generation(event.generation_began());
    case v1::Event::kFirstCollectiveEnded:
      return add_instant("first collective", "",
                         {{"generation", std::int64_t{event.first_collective_ended().generation()}}});
    case v1::Event::kHangReported:
      return add_instant("hang", "", {{"cause", event.hang_reported().cause()}});
    case v1::Event::kJobStateChanged:
      return change_state(event.job_state_changed());
    case v1::Event::kJobEnded:
      return end_job(event.job_ended());
    default:
      return;
  }
}

void JobSpans::finish() {
  end_all(true);
}

// Processes that stay in the job keep their spans under their new numbers.
void JobSpans::begin_generation(const v1::GenerationBegan& began) {
  generation_ = began.number();
  if (!began.former().empty()) {
    std::map<int, Rank> before = std::exchange(ranks_, {});
    for (int rank = 0; rank < began.former_size(); ++rank) {
      const auto found = before.find(began.former(rank));
      if (found != before.end()) ranks_[rank] = std::move(found->second);
    }
  }
  place(began.placement());
  add_instant(fmt::format("generation {}", generation_), "", with_reason(began.reason()));
}

void JobSpans::place(const v1::Placement& placement) {
  std::erase_if(ranks_, [](const auto& each) { return !each.second.begin; });  // the job may have fewer ranks now
  started_ = ranks_.size();
  for (const v1::PlacedHost& placed : placement.hosts()) {
    host(placed.name());
    for (const v1::PlacedRank& rank : placed.ranks()) ranks_[rank.rank()].host = placed.name();
  }
}

void JobSpans::begin_phase(std::string_view name) {
  state_ = name;
  if (phase_ && phase_->name == name) return;
  if (phase_) add_span(*phase_, "", false);
  phase_ = Open{.name = std::string(name), .begin = now_};
}

void JobSpans::begin_host(const std::string& name, std::string_view what) {
  std::optional<Open>& open = host(name);
  if (open && open->name == what) return;
  if (open) add_span(*open, name, false);
  open = Open{.name = std::string(what), .begin = now_};
}

void JobSpans::begin_rank(const v1::RankUp& up) {
  Rank& rank = ranks_[up.rank()];
  rank.pid = up.pid();
  rank.generation = generation_;
  rank.begin = now_;
  // hvdrun has no event for this.
  if (++started_ >= ranks_.size() && phase_ && phase_->name == "starting") begin_phase("running");
}

void JobSpans::end_rank(const v1::RankEnd& end) {
  Rank& rank = ranks_[end.rank()];
  if (!end.host().empty()) rank.host = end.host();
  if (!rank.begin) rank.generation = generation_;
  rank.pid = end.pid();
  SpanAttributes attributes = {{"end", v1::RankEndKind_Name(end.kind())}, {"exit_code", std::int64_t{end.exit_code()}}};
  if (end.signal() != 0) attributes.emplace_back("signal", std::int64_t{end.signal()});
  if (!end.detail().empty()) attributes.emplace_back("detail", end.detail());
  add_rank(end.rank(), rank, std::move(attributes), error_of(end));
}

void JobSpans::change_state(const v1::JobStateChanged& change) {
  reason_ = change.reason();
  const auto state = model::job_state_of(change.state());
  if (!state || !model::is_final(*state)) return begin_phase(lower_name(state));
  state_ = lower_name(state);
}

void JobSpans::end_job(const v1::ExitReport& report) {
  if (phase_) add_span(*std::exchange(phase_, std::nullopt), "", false);
  SpanAttributes attributes = {{"exit_code", std::int64_t{report.exit_code()}}};
  if (report.root_cause_rank() >= 0) {
    attributes.emplace_back("root_cause_rank", std::int64_t{report.root_cause_rank()});
  }
  add_instant("end", "", std::move(attributes));
  end_ = JobSpanEnd{.exit_code = report.exit_code(), .reason = reason_};
  for (const v1::RankEnd& end : report.ends()) {
    if (end.rank() == report.root_cause_rank()) {
      end_->reason = fmt::format("rank {} on {}: {}", end.rank(), end.host(), error_of(end));
    }
  }
  end_all(false);
}

void JobSpans::end_all(bool is_unfinished) {
  if (phase_) add_span(*std::exchange(phase_, std::nullopt), "", is_unfinished);
  for (auto& [name, open] : hosts_) {
    if (open) add_span(*std::exchange(open, std::nullopt), name, is_unfinished);
  }
  for (auto& [number, rank] : ranks_) {
    if (!rank.begin) continue;
    SpanAttributes attributes;
    if (is_unfinished) attributes.emplace_back("unfinished", true);
    add_rank(number, rank, std::move(attributes), "");
  }
}

std::optional<JobSpans::Open>& JobSpans::host(const std::string& name) {
  const auto [found, is_new] = hosts_.try_emplace(name);
  if (is_new) host_order_.push_back(name);
  return found->second;
}

void JobSpans::add_span(const Open& open, const std::string& host, bool is_unfinished) {
  spans_.push_back({.name = open.name,
                    .host = host,
                    .generation = generation_,
                    .begin = first() + open.begin,
                    .end = last(),
                    .attributes = is_unfinished ? SpanAttributes{{"unfinished", true}} : SpanAttributes()});
}

void JobSpans::add_rank(int number, Rank& rank, SpanAttributes attributes, std::string error) {
  host(rank.host);
  attributes.emplace(attributes.begin(), "generation", std::int64_t{rank.generation});
  attributes.emplace(attributes.begin(), "pid", rank.pid);
  spans_.push_back({.name = fmt::format("rank {}", number),
                    .host = rank.host,
                    .rank = number,
                    .generation = rank.generation,
                    .begin = first() + rank.begin.value_or(now_),
                    .end = last(),
                    .attributes = std::move(attributes),
                    .error = std::move(error)});
  rank.begin.reset();
}

void JobSpans::add_instant(std::string_view name, const std::string& host, SpanAttributes attributes) {
  instants_.push_back({.name = std::string(name), .host = host, .time = last(), .attributes = std::move(attributes)});
}

}  // namespace muster::launcherd::trace
