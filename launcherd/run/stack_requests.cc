#include "launcherd/run/stack_requests.h"

#include <utility>

#include <fmt/format.h>

namespace muster::launcherd::inline run {

void StackRequests::ask(const std::vector<Target>& hosts, bool is_native, OnProcess on_process,
                        std::function<void()> done) {
  if (hosts.empty()) {
    done();
    return;
  }
  const std::uint64_t id = next_id_++;
  Open& open = open_[id];
  open.on_process = std::move(on_process);
  open.done = std::move(done);
  for (const Target& host : hosts) open.missing.emplace(host.agent, host.host);
  open.deadline = loop_.after(kPatience, [this, id] {
    const auto late = open_.at(id).missing;
    for (const auto& [agent, host] : late) {
      give_up(id, agent, fmt::format("{} has not answered within {} s", host, kPatience.count()));
    }
  });
  for (const Target& host : hosts) {
    v1::LauncherMessage message;
    message.mutable_stack_question()->set_id(id);
    message.mutable_stack_question()->set_native(is_native);
    message.mutable_stack_question()->mutable_ranks()->Add(host.ranks.begin(), host.ranks.end());
    send_(host.agent, std::move(message));
  }
}

void StackRequests::answered(int agent, const v1::StackAnswer& answer) {
  const auto found = open_.find(answer.id());
  if (found == open_.end()) return;
  const auto host = found->second.missing.find(agent);
  if (host == found->second.missing.end()) return;
  if (answer.has_process()) {
    v1::ProcessStack process = answer.process();
    process.set_host(host->second);
    found->second.on_process(std::move(process));
  }
  if (!answer.done()) return;
  give_up(answer.id(), agent, answer.problem().empty() ? "" : fmt::format("{}: {}", host->second, answer.problem()));
}

void StackRequests::lost(int agent) {
  std::map<std::uint64_t, std::string> with_it;
  for (const auto& [id, open] : open_) {
    const auto host = open.missing.find(agent);
    if (host != open.missing.end()) with_it.emplace(id, host->second);
  }
  for (const auto& [id, host] : with_it) give_up(id, agent, fmt::format("{} was lost before it answered", host));
}

void StackRequests::close() {
  while (!open_.empty()) {
    const auto done = std::move(open_.begin()->second.done);
    open_.erase(open_.begin());
    done();
  }
}

// Ends the wait for `agent`. Empty `why` means that it has answered completely.
void StackRequests::give_up(std::uint64_t id, int agent, const std::string& why) {
  Open& open = open_.at(id);
  if (!why.empty()) {
    v1::ProcessStack process;
    process.set_host(open.missing.at(agent));
    process.set_rank(-1);
    process.set_problem(why);
    open.on_process(std::move(process));
  }
  open.missing.erase(agent);
  finish_if_complete(id);
}

void StackRequests::finish_if_complete(std::uint64_t id) {
  const auto found = open_.find(id);
  if (found == open_.end() || !found->second.missing.empty()) return;
  const auto done = std::move(found->second.done);
  open_.erase(found);
  done();
}

}  // namespace muster::launcherd::run
