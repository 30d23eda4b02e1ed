// Simulated Horovod workers on one loop thread: runs their scripts, however they reach their server. Crowds on several
// threads meet in one HorovodBarriers, as the ranks of a real job do in their Gloo mesh.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "tests/unit/rendezvous/horovod_worker.h"

namespace muster::rendezvous {

// Thread-safe.
class HorovodBarriers {
 public:
  // Once `size` have come for `scope`, `resume` of all is called, on the thread of the last one.
  void arrive(const std::string& scope, std::size_t size, std::function<void()> resume);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::function<void()>>> there_;
};

class HorovodCrowd {
 public:
  // One exchange: `done` is called once, on the loop, not from within the call. Status 0: no reply.
  using Done = std::function<void(int status, std::string_view body)>;
  using Ask = std::function<void(const HorovodSeat& seat, const std::string& request, Done done)>;

  HorovodCrowd(base::Loop& loop, HorovodBarriers& barriers, Ask ask) : loop_(loop), barriers_(barriers), ask_(ask) {}

  // Before the first start.
  void add(const HorovodSeat& seat, int round, const std::string& suffix = "");
  std::size_t size() const { return members_.size(); }

  // On the loop: the i-th of them (starting anywhere in the order) begins now.
  void start(std::size_t i) { go(members_[i]); }

  bool has_ended() const { return ended_ == members_.size(); }
  std::size_t requests() const { return requests_; }
  std::size_t misses() const { return misses_; }  // answered with 404
  std::string problem() const;                    // the first of a worker; empty: none

 private:
  struct Member {
    HorovodWorker worker;
    base::Timer pause;
  };

  void go(Member& member);
  void ask(Member& member);
  void resume(Member& member);

  base::Loop& loop_;
  HorovodBarriers& barriers_;
  const Ask ask_;
  std::deque<Member> members_;
  std::size_t ended_ = 0;
  std::size_t requests_ = 0;
  std::size_t misses_ = 0;
};

}  // namespace muster::rendezvous
