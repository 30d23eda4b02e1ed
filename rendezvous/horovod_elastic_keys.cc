// The keys of an elastic job on one host.
// Read begin(), release() and answer() first, then the verbs.
#include "rendezvous/horovod_elastic_keys.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace muster::rendezvous {
namespace {

constexpr std::string_view kAskScope = "rank_and_size";
constexpr std::string_view kAddressScope = "worker_addresses";
constexpr std::string_view kFirstScope = "global";
constexpr std::string_view kFirstPrefix = "rank_";
constexpr long kMostRank = std::numeric_limits<int>::max() - 1;

std::optional<HorovodSlot> parse_slot(std::string_view key) {
  const auto colon = key.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  const auto local = base::parse_decimal(key.substr(colon + 1), kMostRank);
  if (!local) return std::nullopt;
  return HorovodSlot{std::string(key.substr(0, colon)), static_cast<int>(*local)};
}

// The rank in a first PUT of /global/rank_<r>.
std::optional<int> first_rank(std::string_view scope, std::string_view key) {
  if (scope != kFirstScope || !key.starts_with(kFirstPrefix)) return std::nullopt;
  const auto rank = base::parse_decimal(key.substr(kFirstPrefix.size()), kMostRank);
  return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

base::Status no_generation() {
  return base::unavailable("the job is between two generations");
}

base::Status superseded() {
  return base::unavailable("the worker asked again, or ended");
}

base::Status bad_slot(std::string_view key) {
  return base::internal_error("{} names no slot; expected <host>:<local rank>", base::printable(key));
}

}  // namespace

HorovodElasticKeys::HorovodElasticKeys(HorovodElasticEvents events, HorovodElasticLimits limits)
    : events_(std::move(events)), limits_(limits) {}

HorovodElasticKeys::~HorovodElasticKeys() = default;

void HorovodElasticKeys::begin(HorovodKeys* keys) {
  keys_ = keys;
  is_holding_ = true;
  generation_ = std::make_shared<const int>();
  for (auto& [rank, done] : std::exchange(puts_, {})) done(superseded());
}

void HorovodElasticKeys::release() {
  is_holding_ = false;
  for (auto& [rank, done] : std::exchange(puts_, {})) done(base::ok_status());
}

bool HorovodElasticKeys::answer(const HorovodSlot& slot, std::string numbers) {
  auto asked = asked_.extract(slot);
  if (asked.empty()) return false;
  asked.mapped()(make_horovod_value(std::move(numbers)));
  return true;
}

void HorovodElasticKeys::drop(const HorovodSlot& slot) {
  addresses_.erase(slot);
  if (auto asked = asked_.extract(slot); !asked.empty()) asked.mapped()(superseded());
}

HorovodValue HorovodElasticKeys::worker_address(const HorovodSlot& slot) const {
  const auto found = addresses_.find(slot);
  return found == addresses_.end() ? nullptr : found->second;
}

void HorovodElasticKeys::put(std::string_view scope, std::string_view key, HorovodValue value, Done done) {
  if (scope == kAddressScope) return keep_address(key, std::move(value), std::move(done));
  if (keys_ == nullptr) return done(no_generation());
  const auto rank = is_holding_ ? first_rank(scope, key) : std::nullopt;
  if (rank) return put_first(scope, key, *rank, std::move(value), std::move(done));
  keys_->put(scope, key, std::move(value), std::move(done));
}

void HorovodElasticKeys::keep_address(std::string_view key, HorovodValue value, Done done) {
  const auto slot = parse_slot(key);
  if (!slot) return done(bad_slot(key));
  if (value->size() > limits_.max_address_bytes) {
    return done(base::invalid_argument("a worker's address of {} bytes; the limit is {}", value->size(),
                                       limits_.max_address_bytes));
  }
  if (addresses_.size() >= limits_.max_slots && !addresses_.contains(*slot)) {
    return done(base::resource_exhausted("{} workers have published addresses already", addresses_.size()));
  }
  addresses_.insert_or_assign(*slot, std::move(value));
  done(base::ok_status());
  if (events_.on_worker_address != nullptr) events_.on_worker_address(*slot);
}

void HorovodElasticKeys::put_first(std::string_view scope, std::string_view key, int rank, HorovodValue value,
                                   Done done) {
  keys_->put(scope, key, std::move(value),
             [this, rank, done = std::move(done), now = std::weak_ptr(generation_)](base::Status status) {
               // Destruction and a new generation drop the pointer, so `this` is used only while both are as before.
               if (now.expired()) return done(superseded());
               if (!status.ok()) return done(std::move(status));
               on_put_first(rank, done);
             });
}

void HorovodElasticKeys::on_put_first(int rank, Done done) {
  if (!is_holding_) return done(base::ok_status());
  if (puts_.size() >= limits_.max_slots && !puts_.contains(rank)) {
    return done(base::resource_exhausted("{} workers wait for others already", puts_.size()));
  }
  const Done earlier = std::exchange(puts_[rank], std::move(done));
  if (earlier != nullptr) earlier(superseded());
  if (events_.on_first_put != nullptr) events_.on_first_put(rank);
}

void HorovodElasticKeys::get(std::string_view scope, std::string_view key, GetDone done) {
  if (scope == kAskScope) return hold_get(key, std::move(done));
  if (scope == kAddressScope || keys_ == nullptr) return done(HorovodValue());
  keys_->get(scope, key, std::move(done));
}

void HorovodElasticKeys::hold_get(std::string_view key, GetDone done) {
  const auto slot = parse_slot(key);
  if (!slot) return done(bad_slot(key));
  if (asked_.size() >= limits_.max_slots && !asked_.contains(*slot)) {
    return done(base::resource_exhausted("{} workers wait for their numbers already", asked_.size()));
  }
  const GetDone earlier = std::exchange(asked_[*slot], std::move(done));
  if (earlier != nullptr) earlier(superseded());
  if (events_.on_rank_and_size != nullptr) events_.on_rank_and_size(*slot);
}

HorovodKeys::WaitId HorovodElasticKeys::wait(std::string_view scope, std::string_view key, GetDone done) {
  if (keys_ != nullptr) return keys_->wait(scope, key, std::move(done));
  done(no_generation());
  return 0;
}

void HorovodElasticKeys::cancel_wait(WaitId id) {
  if (keys_ != nullptr) keys_->cancel_wait(id);
}

void HorovodElasticKeys::finish(std::string_view scope, std::string_view key, Done done) {
  if (keys_ == nullptr) return done(no_generation());
  keys_->finish(scope, key, std::move(done));
}

}  // namespace muster::rendezvous
