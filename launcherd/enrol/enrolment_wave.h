// Hosts whose agents are to come by one join file, and who has come. Each host is a seat with a stream to its agent:
// one end is the caller's from the beginning, the other is handed to the connection of the agent that says it is that
// host. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/net.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/enrol/enrolment_seats.h"

namespace muster::launcherd::inline enrol {

// Which of `expected` an agent is that goes by the names in `said` and connects from `peer`: by a whole name, else by
// the part before the first dot where that is one host's only, else by address where a host is named so. Letters of
// either case are the same. Pure.
std::optional<std::size_t> match_host(const std::vector<std::string>& expected, const std::vector<std::string>& said,
                                      const std::optional<base::IpAddress>& peer);

class EnrolmentWave final : public EnrolmentSeats {
 public:
  // RESOURCE_EXHAUSTED: no descriptors are left.
  static base::Result<std::shared_ptr<EnrolmentWave>> make(std::vector<std::string> names);

  // The caller's end of a seat, once. Reads EOF where nobody takes the seat, or who has taken it is gone.
  base::UniqueFd take_stream(std::size_t seat);
  // Why a seat stays empty; empty: it was taken, or may yet be.
  std::string reason(std::size_t seat) const;

  Ends ends(std::size_t seat) const;
  base::Result<Taken> take_seat(const std::vector<std::string>& said, const Ends& ends);
  base::Result<Taken> take(const proto::EnrolmentHello& hello, const Ends& ends) override {
    return take_seat(hello.names, ends);
  }
  void give_back(Taken taken) override;
  void left(std::size_t) override {}  // who has the other end of the stream reads its end

  // These seats, or all, that are still empty will stay so.
  void give_up(const std::vector<std::size_t>& seats, const std::string& why);
  void give_up_all(const std::string& why);

  bool is_complete() const;  // every seat was taken or given up
  bool is_any_taken(const std::vector<std::size_t>& seats) const;
  bool are_given_up(const std::vector<std::size_t>& seats) const;  // all of them

 private:
  struct Seat {
    base::UniqueFd ours;
    base::UniqueFd agents;
    bool is_taken = false;
    Ends ends;
    std::string reason;
  };
  explicit EnrolmentWave(std::vector<std::string> names) : names_(std::move(names)), seats_(names_.size()) {}
  std::vector<std::string> missing() const;

  const std::vector<std::string> names_;
  mutable std::mutex mutex_;
  std::vector<Seat> seats_;  // guarded by mutex_
};

}  // namespace muster::launcherd::enrol
