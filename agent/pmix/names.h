// Names that ranks publish for each other (MPI_Publish_name, and what MPI_Comm_connect and MPI_Comm_accept exchange).
// They are stored in the job's keys, so every host of the job finds them.
//
// A name belongs to the job and disappears with it. If two ranks on different hosts publish the same name at the same
// moment, both may succeed; the later value stays. A name published for one reader is removed by its first look-up.
//
// Owner: pmix::Service. Loop and keys outlive this object.
// Thread: the loop thread only. Each request gets one answer, never from within the call, and none after this object
// is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/pmix/messages.h"
#include "base/gate.h"
#include "base/loop.h"
#include "base/status.h"
#include "rendezvous/horovod_keys.h"

namespace muster::agent::pmix {

class Names {
 public:
  using Answer = std::function<void(NameAnswer)>;

  Names(base::Loop& loop, rendezvous::HorovodKeys& keys, Answer answer)
      : loop_(loop), keys_(keys), answer_(std::move(answer)) {}
  ~Names();
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  // kExists: one of the names is already published. The names before it in the list are then published.
  void publish(const NamePublish& request);
  // kMissing: none of the names is published; with `waits`, not all were published within `seconds`. Without `waits`,
  // the answer has the names that are published.
  void look_up(const NameLookUp& request);
  // kMissing: one of the names is not published. An empty list means all names that this rank has published.
  void unpublish(const NameUnpublish& request);

 private:
  struct Request;
  using Continue = std::function<void(base::Result<rendezvous::HorovodValue>)>;

  void publish_next(const std::shared_ptr<Request>& request);
  void look_up_next(const std::shared_ptr<Request>& request);
  void found(const std::shared_ptr<Request>& request, const base::Result<rendezvous::HorovodValue>& value);
  void unpublish_next(const std::shared_ptr<Request>& request);
  void finish(const std::shared_ptr<Request>& request, NameStatus status);
  // These two wrap callbacks of the keys. The wrapped callback runs on the loop, and only while this object lives and
  // the request has no answer.
  Continue later_value(const std::shared_ptr<Request>& request, Continue next);
  std::function<void(base::Status)> later_done(const std::shared_ptr<Request>& request,
                                               std::function<void(base::Status)> next);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const Answer answer_;
  std::map<std::uint64_t, std::shared_ptr<Request>> open_;
  std::map<int, std::set<std::string>> published_;  // names that ranks of this host have published, by rank
  base::Gate gate_;
};

}  // namespace muster::agent::pmix
