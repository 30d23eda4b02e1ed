// All of LiveKeys.
// Read it in this order: is_stopped and track, the requests, then use, hold and lose_store.
#include "agent/job/live_keys.h"

#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

using rendezvous::HorovodValue;

constexpr std::string_view kNumbers = "rank_and_size";
constexpr std::string_view kAddresses = "worker_addresses";
constexpr std::string_view kWorld = "global";
constexpr std::string_view kFirstKey = "rank_";
constexpr std::string_view kOwnScope = "muster.elastic";
constexpr std::string_view kOver = "over";
constexpr std::size_t kLongestOver = std::size_t{64} << 10;  // bytes; beyond them failed ranks are not listed
constexpr int kHighestLocalRank = 1 << 20;
constexpr std::size_t kMaxAddressBytes = std::size_t{64} << 10;  // of one process
constexpr std::size_t kMaxHeldQuestions = 8;                     // of one process

base::Status overtaken() {
  return base::unavailable("the job has begun another generation, or its store is lost");
}

// Returns 3 for "n1:3".
std::optional<int> local_rank_of(std::string_view key) {
  const auto colon = key.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto number = base::parse_decimal(key.substr(colon + 1), kHighestLocalRank);
  return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
}

}  // namespace

LiveKeys::~LiveKeys() = default;

// Keeps the request in open_ until its answer.
rendezvous::HorovodKeys::Done LiveKeys::track(Done done) {
  const std::uint64_t id = next_++;
  open_[id] = {.fail = done};
  return [this, id, done = std::move(done)](base::Status status) {
    if (open_.erase(id) > 0) done(std::move(status));
  };
}

bool LiveKeys::is_stopped(std::function<void()> again, const std::function<void(const base::Status&)>& fail) {
  if (is_holding_ && held_.size() < kMaxHeldRequests) {
    held_.push_back(std::move(again));
    return true;
  }
  if (is_holding_) {
    fail(base::resource_exhausted("too many requests wait for the next generation"));
    return true;
  }
  if (keys_ != nullptr) return false;
  fail(overtaken());
  return true;
}

void LiveKeys::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  if (scope == kAddresses) return put_address(key, value, done);
  if (scope == kOwnScope && key == kOver)
    return done(base::invalid_argument("only the launcher sets /{}/{}", scope, key));
  const bool is_first = is_holding_ && scope == kWorld && key.starts_with(kFirstKey);
  const auto again = [this, scope = std::string(scope), key = std::string(key), value, done] {
    put(scope, key, value, done);
  };
  if (is_stopped(again, done)) {
    const auto rank = is_first ? base::parse_decimal(key.substr(kFirstKey.size()), kHighestLocalRank) : std::nullopt;
    if (rank) events_.on_first_put(static_cast<int>(*rank));
    return;
  }
  keys_->put(scope, key, std::move(value), track(std::move(done)));
}

void LiveKeys::get(std::string_view scope, std::string_view key, GetDone done) {
  if (scope == kNumbers) return ask(key, std::move(done));
  if (scope == kOwnScope && key == kOver) {  // at once, also while other requests are held
    return done(over_.empty() ? HorovodValue() : rendezvous::make_horovod_value(over_));
  }
  const auto again = [this, scope = std::string(scope), key = std::string(key), done] { get(scope, key, done); };
  if (is_stopped(again, done)) return;
  const std::uint64_t id = next_++;
  open_[id] = {.fail = done};
  keys_->get(scope, key, [this, id, done = std::move(done)](base::Result<HorovodValue> value) {
    if (open_.erase(id) > 0) done(std::move(value));
  });
}

void LiveKeys::finish(std::string_view scope, std::string_view key, Done done) {
  const auto again = [this, scope = std::string(scope), key = std::string(key), done] { finish(scope, key, done); };
  if (is_stopped(again, done)) return;
  keys_->finish(scope, key, track(std::move(done)));
}

rendezvous::HorovodKeys::WaitId LiveKeys::wait(std::string_view scope, std::string_view key, GetDone done) {
  const WaitId id = next_++;
  // Waits are for libmuster, which begins a new session in each generation. So a wait is never held.
  if (keys_ == nullptr) {
    done(overtaken());
    return 0;
  }
  open_[id] = {.fail = done};
  const WaitId inner = keys_->wait(scope, key, [this, id, done](base::Result<HorovodValue> value) {
    if (open_.erase(id) > 0) done(std::move(value));
  });
  const auto found = open_.find(id);
  if (inner == 0 || found == open_.end()) return 0;
  found->second.wait = inner;
  return id;
}

void LiveKeys::cancel_wait(WaitId id) {
  const auto found = open_.find(id);
  if (found == open_.end() || !found->second.wait) return;
  if (keys_ != nullptr) keys_->cancel_wait(*found->second.wait);
  open_.erase(found);
}

// A worker repeats its question on a new connection if it loses the first one.
void LiveKeys::ask(std::string_view key, GetDone done) {
  const auto local_rank = local_rank_of(key);
  if (!local_rank || !local_ranks_.contains(*local_rank)) {
    return done(base::not_found("{} asks for numbers, but is no process of this host", base::printable(key)));
  }
  std::vector<GetDone>& asked = asked_[*local_rank];
  const bool is_new = asked.empty();
  if (asked.size() == kMaxHeldQuestions) {  // a connection that was lost is noticed late
    const GetDone oldest = std::move(asked.front());
    asked.erase(asked.begin());
    oldest(overtaken());
  }
  asked_[*local_rank].push_back(std::move(done));
  if (is_new) events_.on_check_in(*local_rank);
}

void LiveKeys::put_address(std::string_view key, const HorovodValue& value, const Done& done) {
  const auto local_rank = local_rank_of(key);
  if (!local_rank || !local_ranks_.contains(*local_rank)) {
    return done(base::invalid_argument("{} is no process of this host", base::printable(key)));
  }
  if (value->size() > kMaxAddressBytes) {
    return done(
        base::invalid_argument("a worker's address of {} bytes; the limit is {}", value->size(), kMaxAddressBytes));
  }
  addresses_[*local_rank] = *value;
  done(base::ok_status());
}

std::string LiveKeys::notification_address(int local_rank) const {
  const auto found = addresses_.find(local_rank);
  return found == addresses_.end() ? "" : found->second;
}

void LiveKeys::answer(int local_rank, const std::string& numbers) {
  const auto found = asked_.extract(local_rank);
  if (found.empty()) return;
  const HorovodValue value = rendezvous::make_horovod_value(numbers);
  for (const GetDone& done : found.mapped()) done(value);
}

void LiveKeys::forget(int local_rank) {
  addresses_.erase(local_rank);
  const auto found = asked_.extract(local_rank);
  if (found.empty()) return;
  for (const GetDone& done : found.mapped()) done(overtaken());  // closes the connections of the ended process
}

void LiveKeys::use(rendezvous::HorovodKeys& keys, std::set<int> local_ranks, int generation) {
  fail_open();
  keys_ = &keys;
  generation_ = generation;
  is_holding_ = false;
  over_.clear();
  local_ranks_ = std::move(local_ranks);
  std::erase_if(addresses_, [this](const auto& entry) { return !local_ranks_.contains(entry.first); });
  for (const auto& request : std::exchange(held_, {})) request();
}

void LiveKeys::set_over(const v1::GenerationOver& over) {
  if (over_.empty()) over_ = std::to_string(over.generation());
  for (const v1::EndedRank& rank : over.failed()) {
    if (over_.size() + rank.cause().size() > kLongestOver) return;
    over_ += fmt::format("\n{} {}", rank.rank(), base::printable(rank.cause()));
  }
}

void LiveKeys::hold(const std::set<int>& local_ranks) {
  is_holding_ = true;
  local_ranks_.insert(local_ranks.begin(), local_ranks.end());
}

void LiveKeys::lose_store() {
  fail_open();
  keys_ = nullptr;
}

void LiveKeys::fail_open() {
  for (auto& [id, open] : std::exchange(open_, {})) {
    if (open.wait && keys_ != nullptr) keys_->cancel_wait(*open.wait);
    open.fail(overtaken());
  }
}

}  // namespace muster::agent::job
