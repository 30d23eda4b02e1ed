// What one Horovod 0.28.1 worker asks of its rendezvous server during init, as a script without I/O: for the scopes
// global, local_<host> and cross_<local rank> one after the other
//     PUT rank_<r>; GET rank_<i> of the ranks before it, once each; PUT <r>, with (n-1) blocks of 136 bytes;
//     for every peer: GET <i> until it is there, every 10 ms, and once more, for its block; a barrier of the scope's
//     ranks among themselves; DELETE <r>
// Source: horovod/common/gloo/gloo_context.cc and http_store.cc, gloo/rendezvous/context.cc (connectFullMesh). It also
// checks what it gets: the bytes of every block name scope, round, writer and reader.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/horovod_store.h"

namespace muster::rendezvous {

struct HorovodSeat {
  std::size_t host = 0;  // its index
  std::string host_name;
  std::size_t rank = 0;
  std::size_t size = 0;
  std::size_t local_rank = 0;
  std::size_t local_size = 0;
  std::size_t cross_rank = 0;
  std::size_t cross_size = 0;
};

// Block fill in host order.
std::vector<HorovodSeat> horovod_seats(std::span<const HorovodHost> hosts);

class HorovodWorker {
 public:
  enum class Wants { kRequest, kPause, kBarrier, kNothing };

  // `suffix` of all three scopes: "_process_set_hash_<hex>" for a process set of the whole world, else empty.
  HorovodWorker(HorovodSeat seat, int round, const std::string& suffix = "");

  const HorovodSeat& seat() const { return seat_; }
  Wants wants() const { return wants_; }
  const std::string& request() const { return request_; }            // kRequest: its bytes
  const std::string& scope() const { return scopes_[scope_].name; }  // kBarrier: whose
  std::size_t scope_size() const { return scopes_[scope_].size; }
  // What came back: kRequest only. Anything but what the protocol allows ends the script with a problem.
  void answered(int status, std::string_view body);
  void resumed();  // kPause: 10 ms are over; kBarrier: all ranks of the scope are there

  const std::string& problem() const { return problem_; }  // empty: none

 private:
  enum class Step { kPutHint, kGetHint, kPut, kPoll, kRead, kBarrier, kDelete };
  struct Scope {
    std::string name;
    std::size_t rank;
    std::size_t size;
  };

  const Scope& here() const { return scopes_[scope_]; }
  void go(Step step);
  void next_peer();
  void ask(std::string_view verb, const std::string& key, const std::string& body = "");
  void fail(int status, std::string_view body);
  void check_block(std::string_view body);
  std::string block(std::size_t writer, std::size_t reader) const;
  std::string value() const;

  const HorovodSeat seat_;
  const int round_;
  const std::vector<Scope> scopes_;
  std::size_t scope_ = 0;
  std::size_t peer_ = 0;
  Step step_ = Step::kPutHint;
  Wants wants_ = Wants::kRequest;
  std::string request_;
  std::string problem_;
};

}  // namespace muster::rendezvous
