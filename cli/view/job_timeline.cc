#include "cli/view/job_timeline.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/exit_report.h"
#include "proto/convert.h"

namespace muster::cli::inline view {
namespace {

constexpr double kNanoseconds = 1e-9;

// From the mildest to the worst, for lanes of several ranks.
int severity(RunEnd end) {
  switch (end) {
    case RunEnd::kGoesOn:
      return 0;
    case RunEnd::kWell:
      return 1;
    case RunEnd::kStopped:
      return 2;
    case RunEnd::kRuns:
      return 3;
    case RunEnd::kFailed:
      return 4;
    case RunEnd::kLost:
      return 5;
    case RunEnd::kRootCause:
      return 6;
  }
  return 0;
}

class TimelineMaker {
 public:
  void add(const v1::Event& event) {
    const double time =
        static_cast<double>(event.time().seconds()) + static_cast<double>(event.time().nanos()) * kNanoseconds;
    if (!has_begun_) start_ = time;
    has_begun_ = true;
    now_ = std::max(now_, time - start_);  // the clock may have been set back
    if (event.has_job_starting()) place(event.job_starting().placement());
    if (event.has_rank_up()) begin_run(event.rank_up().rank());
    if (event.has_rank_ended()) end_run(event.rank_ended());
    if (event.has_generation_began()) begin_generation(event.generation_began());
    if (event.has_job_ended()) root_ = event.job_ended().root_cause_rank();
    add_phase(event);
  }

  Timeline result() && {
    end_phase();
    for (auto& [rank, begin] : open_) runs_of(rank).push_back({begin, now_, RunEnd::kRuns, "runs"});
    mark_root_cause();
    Timeline timeline{.length = now_, .phases = std::move(phases_), .lanes = {}};
    timeline.lanes = static_cast<int>(runs_.size()) > kMaxRankLanes ? lanes_of_hosts() : lanes_of_ranks();
    return timeline;
  }

 private:
  void place(const v1::Placement& placement) {
    for (const v1::PlacedHost& host : placement.hosts()) {
      const auto known = std::ranges::find(hosts_, host.name());
      const auto index = static_cast<int>(known - hosts_.begin());
      if (known == hosts_.end()) hosts_.push_back(host.name());
      for (const v1::PlacedRank& rank : host.ranks()) places_[rank.rank()] = index;
    }
  }

  void begin_run(int rank) { open_.try_emplace(rank, now_); }

  void end_run(const v1::RankEnd& ended) {
    const model::RankEnd end = proto::rank_end_of(ended);
    RunEnd how = RunEnd::kFailed;
    if (!end.failed()) how = RunEnd::kWell;
    if (end.kind == model::EndKind::kStopped) how = RunEnd::kStopped;
    if (end.kind == model::EndKind::kHostLost) how = RunEnd::kLost;
    const auto open = open_.find(end.rank);
    const double begin = open == open_.end() ? now_ : open->second;
    runs_of(end.rank).push_back({begin, now_, how, base::printable(model::describe(end))});
    if (open != open_.end()) open_.erase(open);
  }

  // Processes that live on may have other numbers now.
  void begin_generation(const v1::GenerationBegan& began) {
    std::map<int, double> open;
    if (began.former_size() > 0) {
      for (const auto& [rank, begin] : open_) {
        runs_of(rank).push_back({begin, now_, RunEnd::kGoesOn, fmt::format("until generation {}", began.number())});
      }
      for (int rank = 0; rank < began.former_size(); ++rank) {
        if (open_.contains(began.former(rank))) open.emplace(rank, now_);
      }
      open_ = std::move(open);
    }
    place(began.placement());
  }

  void begin_phase(const std::string& name) {
    end_phase();
    phases_.push_back({now_, now_, RunEnd::kRuns, name});
  }

  void end_phase() {
    if (!phases_.empty()) phases_.back().end = now_;
  }

  void add_phase(const v1::Event& event) {
    if (event.has_job_state_changed() && event.job_state_changed().state() == v1::JOB_STATE_QUEUED)
      begin_phase(event.job_state_changed().reason().starts_with("held") ? "is held" : "waits");
    if (event.has_job_starting()) begin_phase("hosts start");
    if (event.has_rank_up() && (phases_.empty() || phases_.back().text.starts_with("hosts start"))) begin_phase("runs");
    if (event.has_job_restarting())
      begin_phase(fmt::format("hosts start (attempt {})", event.job_restarting().attempt()));
    if (event.has_generation_began()) begin_phase(fmt::format("generation {}", event.generation_began().number()));
    if (event.has_job_stopping()) begin_phase("stops");
  }

  // The last failed run of this rank.
  void mark_root_cause() {
    TimelineRun* last = nullptr;
    for (auto& [place, runs] : runs_) {
      if (place.second != root_) continue;
      for (TimelineRun& run : runs) {
        if (run.how != RunEnd::kFailed && run.how != RunEnd::kLost) continue;
        if (last == nullptr || run.end >= last->end) last = &run;
      }
    }
    if (last != nullptr) last->how = RunEnd::kRootCause;
  }

  // The runs of a rank on its present host.
  std::vector<TimelineRun>& runs_of(int rank) { return runs_[{host_of(rank), rank}]; }

  int host_of(int rank) const {
    const auto found = places_.find(rank);
    return found == places_.end() ? static_cast<int>(hosts_.size()) : found->second;
  }

  std::string host_name(int host) const {
    return host < static_cast<int>(hosts_.size()) ? base::printable(hosts_[static_cast<std::size_t>(host)]) : "";
  }

  std::vector<TimelineLane> lanes_of_ranks() const {
    std::vector<TimelineLane> lanes;
    for (const auto& [place, runs] : runs_) {
      const std::string name = host_name(place.first);
      lanes.push_back({fmt::format("rank {}{}", place.second, name.empty() ? "" : " on " + name), runs});
    }
    return lanes;
  }

  // The runs of all ranks of a host as one.
  TimelineLane lane_of_host(int host) const {
    std::vector<int> ranks;
    TimelineLane lane;
    for (auto each = runs_.lower_bound({host, -1}); each != runs_.end() && each->first.first == host; ++each) {
      const int rank = each->first.second;
      ranks.push_back(rank);
      if (lane.runs.empty()) lane.runs.push_back(each->second.front());
      TimelineRun& all = lane.runs.front();
      for (const TimelineRun& run : each->second) {
        if (severity(run.how) > severity(all.how)) all.text = fmt::format("rank {}: {}", rank, run.text);
        if (severity(run.how) > severity(all.how)) all.how = run.how;
        all.begin = std::min(all.begin, run.begin);
        all.end = std::max(all.end, run.end);
      }
    }
    const std::string name = host_name(host);
    lane.name = fmt::format("{}: {} {}", name.empty() ? "other" : name, ranks.size() == 1 ? "rank" : "ranks",
                            model::format_rank_list(ranks));
    return lane;
  }

  std::vector<TimelineLane> lanes_of_hosts() const {
    std::vector<TimelineLane> lanes;
    int last = -1;
    for (const auto& [place, runs] : runs_) {
      if (place.first != last) lanes.push_back(lane_of_host(place.first));
      last = place.first;
    }
    return lanes;
  }

  bool has_begun_ = false;
  double start_ = 0;
  double now_ = 0;
  int root_ = -1;
  std::vector<std::string> hosts_;
  std::map<int, int> places_;                                     // rank → index into hosts_
  std::map<int, double> open_;                                    // rank → begin of its run
  std::map<std::pair<int, int>, std::vector<TimelineRun>> runs_;  // by index of the host, then rank
  std::vector<TimelineRun> phases_;
};

}  // namespace

Timeline timeline_of(const std::vector<v1::Event>& events) {
  TimelineMaker maker;
  for (const v1::Event& event : events) maker.add(event);
  return std::move(maker).result();
}

}  // namespace muster::cli::view
