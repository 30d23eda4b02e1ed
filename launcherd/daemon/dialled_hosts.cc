#include "launcherd/daemon/dialled_hosts.h"

#include <algorithm>

#include "base/file.h"
#include "base/strings.h"
#include "proto/enrolment.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr unsigned kOwnerOnly = 0600;

}  // namespace

base::Result<std::unique_ptr<DialledHosts>> DialledHosts::load(base::Loop& loop, std::vector<model::HostSpec> listed,
                                                               Options options) {
  std::unique_ptr<DialledHosts> hosts(new DialledHosts(loop, std::move(listed), std::move(options)));
  MUSTER_RETURN_IF_ERROR(hosts->read());
  // The host's agent may be about to reconnect, so only check later.
  for (const auto& [name, host] : hosts->joined_) hosts->recheck_later(name);
  return hosts;
}

base::Status DialledHosts::read() {
  const auto text = base::read_file(options_.file);
  if (text.status().code() == base::Code::kNotFound) return base::ok_status();
  if (!text.ok()) return text.status();
  for (const std::string_view line : base::split(*text, '\n')) {
    if (line.empty()) continue;
    const auto words = base::split(line, ' ');
    const auto slots = words.size() == 2 ? base::parse_decimal(words[1], proto::kMaxEnrolledSlots) : std::nullopt;
    if (!slots || *slots == 0 || !proto::is_enrolment_name(words[0])) {
      return base::data_loss("{} is damaged: remove it; the agents that dialled in will join again", options_.file);
    }
    joined_[std::string(words[0])].slots = static_cast<int>(*slots);
  }
  return base::ok_status();
}

std::vector<model::HostSpec> DialledHosts::hosts() const {
  std::vector<model::HostSpec> hosts = listed_;
  for (const auto& [name, host] : joined_) {
    // Name it again, because clang before 16 cannot capture a structured binding.
    const bool is_listed = std::ranges::any_of(listed_, [&name = name](const auto& each) { return each.name == name; });
    if (!is_listed) hosts.push_back({.name = name, .slots = host.slots});
  }
  return hosts;
}

std::vector<std::string> DialledHosts::names() const {
  std::vector<std::string> names;
  for (const auto& [name, host] : joined_) names.push_back(name);
  return names;
}

void DialledHosts::replace_listed(std::vector<model::HostSpec> listed) {
  listed_ = std::move(listed);
  options_.on_hosts(hosts());
}

void DialledHosts::join(const std::string& name, int slots) {
  const auto [at, is_new] = joined_.try_emplace(name);
  Host& host = at->second;
  host.recheck.cancel();
  const bool is_other = is_new || host.slots != slots;
  host.slots = slots;
  if (is_new) {
    options_.on_line(fmt::format("{} joined with {} {}", name, slots, slots == 1 ? "slot" : "slots"));
  }
  if (is_other) changed();
}

void DialledHosts::recheck_later(const std::string& name) {
  const auto found = joined_.find(name);
  if (found == joined_.end() || found->second.recheck.armed()) return;
  found->second.recheck = loop_.after(options_.patience, [this, name] { recheck(name); });
}

// Takes `host` by value, because the timer that holds the name is destroyed with the entry.
void DialledHosts::recheck(std::string name) {  // NOLINT(performance-unnecessary-value-param)
  const auto found = joined_.find(name);
  if (found == joined_.end()) return;
  found->second.recheck.cancel();
  if (options_.is_here(name)) return;
  joined_.erase(found);
  options_.on_left(name);
  options_.on_line(fmt::format("{} left: its agent is no longer connected", name));
  changed();
}

void DialledHosts::changed() {
  std::string text;
  for (const auto& [name, host] : joined_) text += fmt::format("{} {}\n", name, host.slots);
  if (const base::Status written = base::write_file_durably(options_.file, text, kOwnerOnly); !written.ok()) {
    options_.on_line(
        fmt::format("the list of joined hosts could not be stored, so the next launcherd will not know them: {}",
                    written.message()));
  }
  options_.on_hosts(hosts());
}

}  // namespace muster::launcherd::daemon
