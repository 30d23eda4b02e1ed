// The whole of Names. A request goes through its names one by one: publish_next(), look_up_next() or
// unpublish_next().
// Read struct Request and later_value() first, then these functions.

#include "agent/pmix/names.h"

#include <chrono>
#include <utility>
#include <vector>

namespace muster::agent::pmix {
namespace {

using rendezvous::HorovodValue;

constexpr std::string_view kScopeOfNames = "pmi";  // the scope of the keys; the rest of PMI uses it, too

// The first byte of a stored value says whether the value stays or is read once.
constexpr char kStays = '=';
constexpr char kReadOnce = '1';

std::string key_of(const std::string& name) {
  return "pmix/name/" + name;
}

}  // namespace

struct Names::Request {
  std::uint64_t id = 0;
  int rank = 0;
  std::vector<std::string> names;
  std::vector<std::string> values;
  bool is_read_once = false;
  bool waits = false;
  std::size_t next = 0;  // index of the next name in `names`
  NameAnswer answer = {};
  rendezvous::HorovodKeys::WaitId wait = 0;
  base::Timer limit = {};
};

Names::~Names() {
  for (const auto& [id, request] : open_) keys_.cancel_wait(request->wait);
}

// The key store may call back from within a put, where none of its functions may be called. So continue on the loop.
Names::Continue Names::later_value(const std::shared_ptr<Request>& request, Continue next) {
  return gate_.wrap([this, request, next = std::move(next)](base::Result<HorovodValue> value) {
    loop_.post(gate_.wrap([this, request, next, value = std::move(value)] {
      if (open_.contains(request->id)) next(value);
    }));
  });
}

std::function<void(base::Status)> Names::later_done(const std::shared_ptr<Request>& request,
                                                    std::function<void(base::Status)> next) {
  return gate_.wrap([this, request, next = std::move(next)](base::Status status) {
    loop_.post(gate_.wrap([this, request, next, status = std::move(status)] {
      if (open_.contains(request->id)) next(status);
    }));
  });
}

void Names::finish(const std::shared_ptr<Request>& request, NameStatus status) {
  keys_.cancel_wait(request->wait);
  open_.erase(request->id);
  request->answer.id = request->id;
  request->answer.status = static_cast<int>(status);
  loop_.post(gate_.wrap([this, request] { answer_(std::move(request->answer)); }));
}

void Names::publish(const NamePublish& asked) {
  auto request = std::make_shared<Request>();
  request->id = asked.id;
  request->rank = asked.rank;
  request->names = asked.names;
  request->values = asked.values;
  request->is_read_once = asked.is_read_once;
  open_[asked.id] = request;
  if (asked.names.size() != asked.values.size()) return finish(request, NameStatus::kFailed);
  publish_next(request);
}

void Names::publish_next(const std::shared_ptr<Request>& request) {
  if (request->next == request->names.size()) return finish(request, NameStatus::kDone);
  const std::string& name = request->names[request->next];
  keys_.get(kScopeOfNames, key_of(name),
            later_value(request, [this, request, name](const base::Result<HorovodValue>& there) {
              if (!there.ok()) return finish(request, NameStatus::kFailed);
              if (*there != nullptr) return finish(request, NameStatus::kExists);
              const std::string& value = request->values[request->next++];
              const char kind = request->is_read_once ? kReadOnce : kStays;
              keys_.put(kScopeOfNames, key_of(name), rendezvous::make_horovod_value(kind + value),
                        later_done(request, [this, request, name](const base::Status& put) {
                          if (!put.ok()) return finish(request, NameStatus::kFailed);
                          published_[request->rank].insert(name);
                          publish_next(request);
                        }));
            }));
}

void Names::look_up(const NameLookUp& asked) {
  auto request = std::make_shared<Request>();
  request->id = asked.id;
  request->names = asked.names;
  request->waits = asked.waits;
  open_[asked.id] = request;
  if (asked.waits && asked.seconds > 0) {
    request->limit = loop_.after(std::chrono::seconds(asked.seconds), [this, weak = std::weak_ptr(request)] {
      // Answer from the loop, because the answer destroys the timer that calls this function.
      loop_.post(gate_.wrap([this, weak] {
        const auto late = weak.lock();
        if (late != nullptr && open_.contains(late->id)) finish(late, NameStatus::kMissing);
      }));
    });
  }
  look_up_next(request);
}

void Names::look_up_next(const std::shared_ptr<Request>& request) {
  if (request->next == request->names.size()) {
    return finish(request, request->answer.names.empty() ? NameStatus::kMissing : NameStatus::kDone);
  }
  const std::string key = key_of(request->names[request->next]);
  const auto take = [this, request](const base::Result<HorovodValue>& value) { found(request, value); };
  if (request->waits) {
    request->wait = keys_.wait(kScopeOfNames, key, later_value(request, take));
  } else {
    keys_.get(kScopeOfNames, key, later_value(request, take));
  }
}

void Names::found(const std::shared_ptr<Request>& request, const base::Result<HorovodValue>& value) {
  if (!value.ok()) return finish(request, NameStatus::kFailed);
  const std::string& name = request->names[request->next++];
  if (*value == nullptr || (*value)->empty()) return look_up_next(request);
  request->answer.names.push_back(name);
  request->answer.values.push_back((*value)->substr(1));
  if ((*value)->front() != kReadOnce) return look_up_next(request);
  keys_.finish(kScopeOfNames, key_of(name), later_done(request, [this, request](const base::Status& erased) {
                 if (!erased.ok()) return finish(request, NameStatus::kFailed);
                 look_up_next(request);
               }));
}

void Names::unpublish(const NameUnpublish& asked) {
  auto request = std::make_shared<Request>();
  request->id = asked.id;
  request->rank = asked.rank;
  request->names = asked.names;
  const std::set<std::string>& own = published_[asked.rank];
  if (asked.names.empty()) request->names.assign(own.begin(), own.end());
  open_[asked.id] = request;
  unpublish_next(request);
}

void Names::unpublish_next(const std::shared_ptr<Request>& request) {
  if (request->next == request->names.size()) return finish(request, NameStatus::kDone);
  const std::string& name = request->names[request->next++];
  keys_.get(
      kScopeOfNames, key_of(name), later_value(request, [this, request, name](const base::Result<HorovodValue>& there) {
        if (!there.ok()) return finish(request, NameStatus::kFailed);
        if (*there == nullptr) return finish(request, NameStatus::kMissing);
        published_[request->rank].erase(name);
        keys_.finish(kScopeOfNames, key_of(name), later_done(request, [this, request](const base::Status& erased) {
                       if (!erased.ok()) return finish(request, NameStatus::kFailed);
                       unpublish_next(request);
                     }));
      }));
}

}  // namespace muster::agent::pmix
