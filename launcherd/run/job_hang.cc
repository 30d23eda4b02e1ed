// The part of JobRunner's core that finds out why a job makes no progress, and acts on it.
// Read it in this order: hang_events, hang_found, end_hung, then explain_hang, which answers users.
#include <algorithm>
#include <csignal>
#include <utility>

#include "launcherd/run/job_core.h"

namespace muster::launcherd::inline run {

HangWatch::Events JobRunner::Core::hang_events() {
  return {.expects_progress = [this] { return expects_progress(); },
          .writes = [this] { return activity_.writes(); },
          .ask = [this](EvidenceRequests::Rounds rounds,
                        EvidenceRequests::Done done) { return ask_evidence(rounds, std::move(done)); },
          .cancel = [this](std::uint64_t inquiry) { evidence_requests_.cancel(inquiry); },
          .report = [this](const model::HangReport& report) { hang_found(report); },
          .goes_on = [this](std::chrono::milliseconds silent) { observer_->on_hang_over(silent); },
          .complete = [this](model::HangFacts& facts) { complete_facts(facts); }};
}

// False while the ranks are stopped, a host does not answer, or processes join or leave a job whose ranks change.
bool JobRunner::Core::expects_progress() const {
  if (phase_ != JobPhase::kRunning || suspension_.is_on()) return false;
  const bool is_any_suspect = std::ranges::any_of(
      hosts_, [this](const JobHost& host) { return host.phase == HostPhase::kLaunched && liveness_.is_suspect(host); });
  if (is_any_suspect) return false;
  if (live_ == nullptr) return !ends_.all_ended() && !ends_.any_failed();
  return std::ranges::all_of(live_->members().all(), [](const LiveProcess& process) {
    return process.has_ended ? process.rank < 0 : process.has_joined;
  });
}

std::optional<std::uint64_t> JobRunner::Core::ask_evidence(EvidenceRequests::Rounds rounds,
                                                           EvidenceRequests::Done done) {
  std::vector<EvidenceRequests::Target> targets;
  for (const JobHost& host : hosts_) {
    if (is_finished() || host.phase != HostPhase::kLaunched) continue;
    const bool has_ranks = std::ranges::any_of(host.ranks, [this](int rank) { return may_run(rank); });
    if (!has_ranks) continue;
    const bool has_first = std::ranges::find(host.ranks, 0) != host.ranks.end();
    targets.push_back({.agent = host.agent, .host = host.name, .asks_nccl = has_first});
  }
  if (targets.empty()) return std::nullopt;
  if (std::ranges::none_of(targets, &EvidenceRequests::Target::asks_nccl)) targets.front().asks_nccl = true;
  return evidence_requests_.ask(std::move(targets), rounds,
                                [this, done = std::move(done)](EvidenceRequests::Answers answers) {
                                  for (model::HangLook& look : answers.looks) show_ranks(look);
                                  done(std::move(answers));
                                });
}

// Drops ranks that have ended, and gives the others the numbers that users see.
void JobRunner::Core::show_ranks(model::HangLook& look) const {
  std::erase_if(look, [this](const model::RankEvidence& each) { return !may_run(each.rank); });
  for (model::RankEvidence& each : look) each.rank = shown_rank(each.rank);
  std::erase_if(look, [](const model::RankEvidence& each) { return each.rank < 0; });
}

void JobRunner::Core::complete_facts(model::HangFacts& facts) const {
  facts.size = placement_.size;
  facts.generation = options_.attempt;
  if (live_ != nullptr) {
    facts.generation = live_generation_;
    return;
  }
  for (int rank = 0; rank < placement_.size; ++rank) {
    if (ends_.has_ended(rank)) facts.ended.push_back(rank);
  }
}

void JobRunner::Core::hang_found(const model::HangReport& report) {
  observer_->on_event(model::HangReported{report});
  if (job_.hang.on_hang != model::OnHang::kWarn) end_hung(report);
}

// Ends the job, or lets it start again. The first suspect then counts as failed. Without a suspect, a job that starts
// again needs another failed rank: it is the first one of the smallest class.
void JobRunner::Core::end_hung(const model::HangReport& report) {
  const bool restarts = job_.hang.on_hang == model::OnHang::kRestart;
  std::optional<model::RankEnd> end;
  if (live_ == nullptr && !report.classes.empty() && (restarts || report.has_suspects())) {
    const model::RankEvidence& blamed = report.classes.front().example;
    end.emplace();
    end->rank = blamed.rank;
    end->host = blamed.host;
    end->pid = static_cast<long>(blamed.pid);
    end->kind = model::EndKind::kSignalled;
    end->signal = SIGKILL;
    end->detail = report.cause;
    end->at = clock_.now();
  }
  if (restarts && live_ != nullptr) return end_hung_process(report);
  if (!restarts) begin_stop(StopCause::kHung, job_.kill_grace, "it hung: " + report.cause);
  if (end) add_end(*end);
  begin_stop(StopCause::kPolicy, job_.kill_grace, "it hung: " + report.cause);  // ignored if the job is ending already
}

// Ends the process of the first suspect. The other ranks then form the next generation.
void JobRunner::Core::end_hung_process(const model::HangReport& report) {
  if (!report.has_suspects()) return;
  const int number = live_->members().number_of(report.classes.front().ranks.front());
  const auto host = std::ranges::find_if(
      hosts_, [&](const JobHost& each) { return std::ranges::find(each.ranks, number) != each.ranks.end(); });
  if (host == hosts_.end()) return;
  v1::LauncherMessage message;
  message.mutable_end_ranks()->set_grace_ms(job_.kill_grace.count());
  message.mutable_end_ranks()->add_ranks(number);
  agents_->send(host->agent, std::move(message));
}

base::Status JobRunner::Core::explain_hang(std::function<void(const model::HangReport&)> done) {
  const EvidenceRequests::Rounds rounds{
      .number = 3, .apart = std::chrono::milliseconds(1'000), .pause = std::chrono::milliseconds(500)};
  const auto asked = ask_evidence(rounds, [this, done = std::move(done)](EvidenceRequests::Answers answers) {
    model::HangFacts facts{.looks = std::move(answers.looks)};
    facts.silent_ms = hang_watch_.silence().count();
    facts.looked_ms = answers.elapsed.count();
    facts.silent_hosts = std::move(answers.silent_hosts);
    facts.nccl = std::move(answers.nccl);
    facts.is_asked_for = true;
    complete_facts(facts);
    done(model::judge_hang(facts).report);
  });
  if (!asked) return base::failed_precondition("no rank runs at the moment: it is starting or ending");
  return base::ok_status();
}

}  // namespace muster::launcherd::run
