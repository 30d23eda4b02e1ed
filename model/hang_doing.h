// Judges from several looks at a rank what it is doing. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/hang_report.h"

namespace muster::model {

// The first value that fits holds.
enum class RankDoing {
  kUnknown,     // it could not be read, or not in all looks
  kStopped,     // all its threads are stopped
  kWorks,       // it goes through different places, or uses CPU time in a way that no other value explains
  kDisk,        // in state D without CPU time
  kCollective,  // waits in a collective operation of libmuster
  kKey,         // waits for a server of its agent: a key, or a fence
  kPeers,       // waits in a communication library
  kLoops,       // runs different lines of one function
  kComputes,    // runs in one call
  kSocket,      // waits for bytes from a socket
  kServes,      // waits for a connection, or for one of several events
  kBlocked,     // waits for something else: a lock, a timer, a child, a pipe
};

// `looks` are all of one rank, oldest first.
RankDoing doing_of(std::span<const RankEvidence* const> looks);

// True for waits that other ranks can end, and from which a library or a server shows that.
constexpr bool waits_for_ranks(RankDoing doing) {
  return doing == RankDoing::kCollective || doing == RankDoing::kKey || doing == RankDoing::kPeers;
}

// Returns the part of the time between the two looks in which the rank used a CPU; 1 is one whole CPU.
double cpu_share(const RankEvidence& look);

// True if the rank only woke up now and then between the two looks.
bool is_idle(const RankEvidence& look);

// True if both looks found the rank in the same functions. Lines may differ.
bool is_same_chain(const RankEvidence& one, const RankEvidence& other);

// Returns the innermost call of the user's own code, as "load (data.py:88)". Without Python calls it is the native
// function, as "spin ()". Empty if neither is known.
std::string place_of(const RankEvidence& evidence);

// Returns "load (data.py:88)" for one call.
std::string text_of(const PythonCall& call);

std::string_view name_of(RankDoing doing);

}  // namespace muster::model
