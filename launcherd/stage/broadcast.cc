// The whole of Broadcast. Read start() and list_next() first, then report().
#include "launcherd/stage/broadcast.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/sha256.h"
#include "base/strings.h"

namespace muster::launcherd::inline stage {
namespace {

using base::Result;

constexpr std::size_t kSecretBytes = 32;
// Blocks that are hashed at a time. Pieces for hosts are read between two times.
constexpr std::size_t kHashAtOnce = 4 * Broadcast::kBlockBytes;
// Lists are sent when they hold so much. Few bytes let hosts begin soon, and few messages cost little.
constexpr std::size_t kListBytes = 16 << 20;
constexpr std::size_t kListFiles = 256;

}  // namespace

Broadcast::Broadcast(const StageTree& tree, Events events) : tree_(tree), events_(std::move(events)) {
  base::random_bytes(&token_, sizeof token_);
  identity_ = fmt::format("muster://stage/{}", base::random_hex(8));
  secret_.resize(kSecretBytes);
  base::random_bytes(secret_.data(), secret_.size());
}

std::size_t Broadcast::add_host(std::string name, std::string address) {
  Host& host = hosts_.emplace_back();
  host.name = std::move(name);
  host.address = std::move(address);
  return hosts_.size() - 1;
}

v1::StageBroadcast Broadcast::begin() const {
  v1::StageBroadcast order;
  v1::StageBegin& begin = *order.mutable_begin();
  begin.set_token(token_);
  begin.set_identity(identity_);
  begin.set_secret(secret_);
  begin.set_block_bytes(kBlockBytes);
  return order;
}

void Broadcast::began(std::size_t host, const std::string& answer) {
  v1::StageBroadcastAnswer port;
  if (port.ParseFromString(answer)) hosts_[host].port = port.port();
}

void Broadcast::add_want(std::size_t host, int entry) {
  wanted_by_[entry].push_back(host);
}

std::vector<std::size_t> Broadcast::sources_of(std::size_t host) const {
  std::vector<std::size_t> sources;
  const auto add = [&](std::size_t source) {
    const bool serves = hosts_[source].port != 0 && !hosts_[source].address.empty();
    if (serves && sources.size() < kMostSources && std::ranges::find(sources, source) == sources.end()) {
      sources.push_back(source);
    }
  };
  for (std::size_t at = host; at > 0;) {
    at = (at - 1) / kFanOut;
    // Keep room for the host before this one, which is in another branch.
    if (sources.size() + 1 < kMostSources) add(at);
  }
  if (host > 0) add(host - 1);
  return sources;
}

void Broadcast::send_sources(std::size_t host) {
  v1::StageBroadcast order;
  v1::StageSources& sources = *order.mutable_sources();
  for (const std::size_t index : sources_of(host)) {
    v1::StageBlockSource& source = *sources.add_sources();
    source.set_name(hosts_[index].name);
    source.set_address(hosts_[index].address);
    source.set_port(hosts_[index].port);
  }
  give_order(host, order);
}

void Broadcast::give_order(std::size_t host, const v1::StageBroadcast& order) {
  if (++hosts_[host].unanswered == kMostUnanswered) ++full_hosts_;
  events_.order(host, order);
}

void Broadcast::answered(std::size_t host) {
  if (hosts_[host].unanswered == 0) return;
  if (hosts_[host].unanswered-- == kMostUnanswered) --full_hosts_;
  if (is_paused_ && full_hosts_ == 0) list_next();
}

void Broadcast::start() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) send_sources(i);
  listing_ = wanted_by_.cbegin();
  list_next();
}

// Hashes the next blocks of the files that hosts want.
void Broadcast::list_next() {
  if (listing_ == wanted_by_.cend()) {
    send_lists(true);
    return;
  }
  is_paused_ = full_hosts_ > 0;
  if (is_paused_) return;
  const int entry = listing_->first;
  const std::uint64_t size = size_of(entry);
  const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(kHashAtOnce, size - offset_));
  events_.hash(entry, offset_, now, [this, entry, size, now](const Result<std::string>& hashes) {
    if (!hashes.ok()) return events_.fail(hashes.status());
    listed(entry, offset_, *hashes);
    pending_bytes_ += now;
    offset_ += now;
    if (offset_ == size) {
      ++pending_files_;
      ++listing_;
      offset_ = 0;
    }
    if (pending_bytes_ >= kListBytes || pending_files_ >= kListFiles) send_lists(false);
    list_next();
  });
}

void Broadcast::listed(int entry, std::uint64_t offset, const std::string& hashes) {
  for (const std::size_t index : listing_->second) {
    Host& host = hosts_[index];
    v1::StageBlockList& list = *host.pending.add_files();
    list.set_entry(entry);
    list.set_first(static_cast<std::uint32_t>(offset / kBlockBytes));
    list.set_hashes(hashes);
    host.listed_blocks += hashes.size() / base::kSha256Size;
  }
}

void Broadcast::send_lists(bool is_last) {
  pending_bytes_ = 0;
  pending_files_ = 0;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    Host& host = hosts_[i];
    if (host.pending.files().empty() && !is_last) continue;
    v1::StageBroadcast order;
    *order.mutable_lists() = std::exchange(host.pending, {});
    order.mutable_lists()->set_is_last(is_last);
    give_order(i, order);
  }
}

bool Broadcast::report(std::size_t host, const v1::StageAnswer& answer) {
  v1::StageBroadcastAnswer parsed;
  if (!parsed.ParseFromString(answer.broadcast()) || parsed.report().token() != token_) return false;
  const v1::StageReport& report = parsed.report();
  Host& from = hosts_[host];
  from.done_blocks = report.done_blocks();
  from.peer_bytes = report.peer_bytes();
  from.changed_files = report.changed_files();
  from.is_complete = report.is_complete();
  for (const std::string& note : report.notes()) {
    events_.note(fmt::format("{}: --stage: {}", from.name, base::printable(note)));
  }
  for (const v1::StageBlock& want : report.wants()) {
    const auto wanted = wanted_by_.find(want.entry());
    const std::uint64_t begin = std::uint64_t{want.block()} * kBlockBytes;
    const bool is_right = wanted != wanted_by_.end() && begin < size_of(want.entry()) && from.asked < kMostWants &&
                          std::ranges::find(wanted->second, host) != wanted->second.end();
    if (!is_right) {
      events_.fail(
          base::failed_precondition("{}: --stage: the agent there asks for blocks that it does not need", from.name));
      return true;
    }
    ++from.asked;
    events_.want(host, want.entry(), begin, std::min<std::uint64_t>(begin + kBlockBytes, size_of(want.entry())));
  }
  return true;
}

bool Broadcast::is_complete() const {
  return std::ranges::all_of(hosts_, [](const Host& host) { return host.is_complete; });
}

std::uint64_t Broadcast::peer_bytes() const {
  std::uint64_t bytes = 0;
  for (const Host& host : hosts_) bytes += host.peer_bytes;
  return bytes;
}

std::uint32_t Broadcast::changed_files() const {
  std::uint32_t files = 0;
  for (const Host& host : hosts_) files = std::max(files, host.changed_files);
  return files;
}

}  // namespace muster::launcherd::stage
