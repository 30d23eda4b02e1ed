// All of EvidenceRequests. Read it in this order: ask, begin_round, answered, finish_round_if_complete, finish.
#include "launcherd/run/evidence_requests.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "proto/hang_convert.h"

namespace muster::launcherd::inline run {

std::uint64_t EvidenceRequests::ask(std::vector<Target> targets, Rounds rounds, Done done) {
  const std::uint64_t id = next_inquiry_++;
  Inquiry& inquiry = open_[id];
  inquiry.targets = std::move(targets);
  inquiry.rounds = rounds;
  inquiry.done = std::move(done);
  inquiry.began = clock_.now();
  begin_round(id);
  return id;
}

bool EvidenceRequests::is_last_round(const Inquiry& inquiry) {
  return static_cast<int>(inquiry.answers.looks.size()) >= inquiry.rounds.number;
}

void EvidenceRequests::begin_round(std::uint64_t id) {
  Inquiry& inquiry = open_.at(id);
  inquiry.question = next_question_++;
  inquiry.answers.looks.emplace_back();
  for (const Target& target : inquiry.targets) inquiry.missing.emplace(target.agent, target.host);
  inquiry.timer = loop_.after(inquiry.rounds.apart + kPatience, [this, id] {
    const auto late = open_.at(id).missing;
    for (const auto& [agent, host] : late) give_up(id, agent);
  });
  const std::vector<Target> targets = inquiry.targets;
  for (const Target& target : targets) {
    v1::LauncherMessage message;
    message.mutable_evidence_question()->set_id(inquiry.question);
    message.mutable_evidence_question()->set_apart_ms(inquiry.rounds.apart.count());
    message.mutable_evidence_question()->set_asks_nccl(target.asks_nccl && is_last_round(inquiry));
    send_(target.agent, std::move(message));
  }
}

void EvidenceRequests::answered(int agent, const v1::EvidenceAnswer& answer) {
  const auto found = std::ranges::find_if(open_, [&](const auto& each) { return each.second.question == answer.id(); });
  if (found == open_.end()) return;
  Inquiry& inquiry = found->second;
  const auto host = inquiry.missing.find(agent);
  if (host == inquiry.missing.end()) return;
  for (const v1::RankEvidence& rank : answer.ranks()) {
    model::RankEvidence evidence = proto::evidence_of(rank);
    evidence.host = host->second;
    inquiry.answers.looks.back().push_back(std::move(evidence));
  }
  for (const v1::NcclFinding& finding : answer.nccl()) {
    inquiry.answers.nccl.push_back(proto::nccl_finding_of(finding));
  }
  inquiry.missing.erase(host);
  finish_round_if_complete(found->first);
}

void EvidenceRequests::lost(int agent) {
  std::vector<std::uint64_t> with_it;
  for (const auto& [id, inquiry] : open_) {
    if (std::ranges::find(inquiry.targets, agent, &Target::agent) != inquiry.targets.end()) with_it.push_back(id);
  }
  for (const std::uint64_t id : with_it) give_up(id, agent);
}

void EvidenceRequests::give_up(std::uint64_t id, int agent) {
  const auto found = open_.find(id);
  if (found == open_.end()) return;
  Inquiry& inquiry = found->second;
  const auto target = std::ranges::find(inquiry.targets, agent, &Target::agent);
  if (target == inquiry.targets.end()) return;
  inquiry.answers.silent_hosts.push_back(target->host);
  inquiry.targets.erase(target);
  if (inquiry.missing.erase(agent) > 0) finish_round_if_complete(id);
}

void EvidenceRequests::finish_round_if_complete(std::uint64_t id) {
  Inquiry& inquiry = open_.at(id);
  if (!inquiry.missing.empty()) return;
  if (inquiry.targets.empty() || is_last_round(inquiry)) return finish(id);
  inquiry.timer = loop_.after(inquiry.rounds.pause, [this, id] {
    if (open_.at(id).targets.empty()) return finish(id);  // all were lost in the pause
    begin_round(id);
  });
}

void EvidenceRequests::finish(std::uint64_t id) {
  auto node = open_.extract(id);
  Inquiry& inquiry = node.mapped();
  inquiry.answers.elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - inquiry.began);
  inquiry.done(std::move(inquiry.answers));
}

void EvidenceRequests::close() {
  while (!open_.empty()) finish(open_.begin()->first);
}

}  // namespace muster::launcherd::run
