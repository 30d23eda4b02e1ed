// Builds what ranks do, for tests of the rules on hangs.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/hang_rules.h"

namespace muster::model {

// Evidence of ranks that do the same in all looks. Each function returns the evidence of one look.
struct Rank {
  RankEvidence evidence{.pid = 4242, .state = "S", .looked_ms = 1000};

  Rank in(std::string function, std::string file, int line) && {
    evidence.python.insert(evidence.python.begin(),
                           {.function = std::move(function), .file = std::move(file), .line = line});
    return std::move(*this);
  }
  Rank waits_in(std::string channel) && {
    evidence.wait_channel = std::move(channel);
    return std::move(*this);
  }
  Rank state(std::string state) && {
    evidence.state = std::move(state);
    return std::move(*this);
  }
  Rank uses(std::int64_t cpu_ms) && {
    evidence.cpu_ms = cpu_ms;
    return std::move(*this);
  }
  Rank native(std::string function) && {
    evidence.native = std::move(function);
    return std::move(*this);
  }
  Rank awaits(std::string what) && {
    evidence.awaits = std::move(what);
    return std::move(*this);
  }
  Rank torch(std::uint64_t sequence, std::string state, std::string group = "default_pg") && {
    evidence.torch = TorchCollective{
        .group = std::move(group), .sequence = sequence, .operation = "nccl:all_reduce", .state = std::move(state)};
    return std::move(*this);
  }
  Rank operation(std::uint64_t begun, std::uint64_t ended, std::string operation, std::string name) && {
    evidence.collective = {
        .size = 8, .begun = begun, .ended = ended, .operation = std::move(operation), .name = std::move(name)};
    return std::move(*this);
  }
};

inline Rank in_script(int line) {
  return Rank().in("<module>", "/home/alice/train.py", 90).in("main", "/home/alice/train.py", line);
}

// Waits in a call of another rank's socket.
inline Rank in_recv() {
  return in_script(40).waits_in("wait_woken");
}
inline Rank in_lock() {
  return in_script(55).waits_in("futex_wait_queue");
}
inline Rank in_sleep() {
  return in_script(66).waits_in("hrtimer_nanosleep");
}
inline Rank in_accept() {
  return in_script(70).waits_in("inet_csk_accept");
}
inline Rank in_epoll() {
  return in_script(71).waits_in("ep_poll");
}
inline Rank in_child() {
  return in_script(72).waits_in("do_wait");
}
inline Rank in_pipe() {
  return in_script(73).waits_in("pipe_read");
}
inline Rank in_gloo() {
  return in_script(41)
      .in("barrier", "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py", 3685)
      .waits_in("futex_wait_queue");
}
inline Rank in_mpi(std::string function = "MPI_Barrier") {
  return in_script(42).native(std::move(function)).state("R").uses(1000);
}
inline Rank in_key(std::string key = "the key x in the store") {
  return in_script(43).waits_in("wait_woken").awaits(std::move(key));
}
inline Rank in_allreduce(std::uint64_t number, std::string name = "grad/17", std::string operation = "allreduce") {
  return in_script(44)
      .waits_in("futex_wait_queue")
      .operation(number, number - 1, std::move(operation), std::move(name));
}
inline Rank after_allreduce(std::uint64_t number, Rank place) {
  return std::move(place).operation(number, number, "allreduce", "grad/16");
}
inline Rank on_disk() {
  return in_script(88).state("D").waits_in("nfs_wait_bit_killable");
}
inline Rank in_call() {
  return in_script(99).state("R").uses(1000);
}
inline Rank is_stopped() {
  Rank rank = in_script(50).state("T").waits_in("do_signal_stop");
  rank.evidence.fully_stopped = true;
  return rank;
}

// A rank in the looks of one round each. One entry means the same in all rounds.
using Track = std::vector<Rank>;

// Runs different lines of one function.
inline Track loops() {
  Track track;
  for (const int line : {30, 31, 30}) {
    track.push_back(in_script(line).state("R").uses(1000));
    track.back().evidence.moving = true;
  }
  return track;
}
// Runs different functions of an evaluation.
inline Track evaluates() {
  Track track = {
      in_script(30)
          .in("evaluate", "/home/alice/train.py", 12)
          .in("forward", "/x/dist-packages/torch/nn/linear.py", 114),
      in_script(30).in("evaluate", "/home/alice/train.py", 12).in("forward", "/x/dist-packages/torch/nn/norm.py", 202),
      in_script(30).in("evaluate", "/home/alice/train.py", 15)};
  for (Rank& rank : track) {
    rank = std::move(rank).state("R").uses(990);
    rank.evidence.moving = true;
  }
  return track;
}
inline Track changes(Rank one, Rank two) {
  Rank again = one;
  return {std::move(one), std::move(two), std::move(again)};
}

inline constexpr int kRounds = 3;

// The looks at ranks 0, 1, … on n1, n2, …, one rank a host.
inline std::vector<HangLook> looks_at(const std::vector<Track>& tracks) {
  std::vector<HangLook> looks(kRounds);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t rank = 0; rank < tracks.size(); ++rank) {
      RankEvidence evidence = tracks[rank].at(round % tracks[rank].size()).evidence;
      evidence.rank = static_cast<int>(rank);
      evidence.host = "n" + std::to_string(rank + 1);
      looks[round].push_back(std::move(evidence));
    }
  }
  return looks;
}

// A silence of `limits` time limits. After the first limit, there were looks before.
inline HangFacts facts_of(const std::vector<Track>& tracks, int limits = 1) {
  HangFacts facts{.looks = looks_at(tracks), .size = static_cast<int>(tracks.size())};
  facts.timeout_ms = 120'000;
  facts.silent_ms = limits * facts.timeout_ms;
  if (limits > 1) facts.earlier = facts.looks;
  return facts;
}

// Four ranks, of which `number` does something else.
inline std::vector<Track> but(Track others, int number, Track one) {
  std::vector<Track> tracks(4, std::move(others));
  tracks.at(static_cast<std::size_t>(number)) = std::move(one);
  return tracks;
}

}  // namespace muster::model
