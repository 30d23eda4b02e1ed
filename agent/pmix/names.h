// Names that ranks publish for each other (MPI_Publish_name, and what MPI_Comm_connect and MPI_Comm_accept exchange),
// in the job's keys: every host of the job finds them.
//
// A name belongs to the job and goes with it. Two ranks of different hosts that publish the same name at the same
// moment may both succeed; the later value stays. One that was published for one reader is taken away by its first
// look-up.
//
// Loop thread only; owned by pmix::Service. Loop and keys outlive it. Each request gets one answer, never from within
// the call; none at all once this is destroyed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agent/pmix/messages.h"
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

  // Exists: a name of them is published already; those before it in the list are published then.
  void publish(const NamePublish& request);
  // Missing: none of them is published, or with `waits` not all within `seconds`. Without `waits` those that are there
  // are the answer.
  void look_up(const NameLookUp& request);
  // Missing: one of them is not published. An empty list stands for all that this rank has published.
  void unpublish(const NameUnpublish& request);

 private:
  struct Request;
  using Continue = std::function<void(base::Result<rendezvous::HorovodValue>)>;

  void publish_next(const std::shared_ptr<Request>& request);
  void look_up_next(const std::shared_ptr<Request>& request);
  void found(const std::shared_ptr<Request>& request, const base::Result<rendezvous::HorovodValue>& value);
  void unpublish_next(const std::shared_ptr<Request>& request);
  void finish(const std::shared_ptr<Request>& request, NameStatus status);
  // Calls of the keys whose answers come back on the loop, while this lives and the request has no answer.
  Continue later_value(const std::shared_ptr<Request>& request, Continue next);
  std::function<void(base::Status)> later_done(const std::shared_ptr<Request>& request,
                                               std::function<void(base::Status)> next);

  base::Loop& loop_;
  rendezvous::HorovodKeys& keys_;
  const Answer answer_;
  std::map<std::uint64_t, std::shared_ptr<Request>> open_;
  std::map<int, std::set<std::string>> published_;  // by ranks of this host
  const std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace muster::agent::pmix
