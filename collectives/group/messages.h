// What ranks of a communicator send each other: beside its collectives, not ordered with them, and without the ranks
// that it is not about. Messages from one rank to another arrive in the order in which they were sent; the two calls
// have to agree in count, type and tag.
//
// Each direction of each pair is a line: its first message moves, the others wait. Who waits for a message moves all
// that can move; messages that were only started are moved by a thread that begins with the first of them and sleeps
// between. So an exchange of large messages in a circle comes to its end when either side of it was started.
//
// Any thread. The communicator owns it and outlives it. After the first failure (a mismatch, a rank that has gone,
// nothing for longer than the deadline, what the abort record says) everything fails with it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "collectives/call/call.h"
#include "collectives/call/request.h"
#include "collectives/group/peer_links.h"
#include "collectives/transport/abort.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline group {

// What messages ask of their communicator; called from any thread.
struct MessageOwner {
  // Once: finds out more, tells all ranks, and returns what all of them are told. May take a second.
  std::function<base::Status(const Failure& failure)> fail;
  // How a peer has left in good order, "has closed its communicator"; empty: it has not.
  std::function<std::string(int peer)> left;
};

class Messages {
 public:
  // RESOURCE_EXHAUSTED: no descriptor.
  static base::Result<std::unique_ptr<Messages>> create(std::unique_ptr<PeerLinks> links, MessageOwner owner);
  ~Messages();  // waits for what was started
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  // `peer`: another rank of the communicator. `call.root` is the tag. A send is done when its link has taken all: a
  // large message needs a receiver that has called.
  base::Status send(int peer, const Call& call, std::span<const std::byte> bytes);
  base::Status receive(int peer, const Call& call, std::span<std::byte> place);
  // The same without waiting.
  std::shared_ptr<Request> start_send(int peer, const Call& call, std::span<const std::byte> bytes);
  std::shared_ptr<Request> start_receive(int peer, const Call& call, std::span<std::byte> place);

 private:
  struct Transfer;
  struct Line;
  using Lock = std::unique_lock<std::mutex>;

  Messages(std::unique_ptr<PeerLinks> links, MessageOwner owner, base::UniqueFd wake);
  base::Status wait_for(int peer, const std::shared_ptr<Transfer>& transfer);
  std::shared_ptr<Request> start(int peer, std::shared_ptr<Transfer> transfer);
  void add(int peer, const std::shared_ptr<Transfer>& transfer);
  void run();

  // With the lock, which is given away for a while where it is passed on.
  template <typename IsOver>
  void drive(Lock& lock, const IsOver& is_over);
  bool turn();
  bool turn(Line& line);
  void drop_idle();
  bool begin(Line& line, Transfer& transfer);
  void look();
  void look_at(Line& line);
  void settle(Lock& lock);
  void broken(const Line& line, const base::Status& why);
  void finish_first(Line& line, const base::Status& status);
  void finish_all(const base::Status& status);
  bool add_polls(std::vector<pollfd>& fds) const;

  // Without it.
  template <typename IsOver>
  void sleep(const IsOver& is_over);
  void wake();

  const std::unique_ptr<PeerLinks> links_;
  const MessageOwner owner_;
  const base::UniqueFd wake_;  // an eventfd: who polls looks again
  const WaitPolicy patient_;   // the deadline is each message's own
  std::atomic<int> pollers_{0};

  std::mutex mutex_;  // of all below, and of links_
  std::condition_variable news_;
  std::vector<Line> lines_;         // to and from each peer
  std::vector<Line*> active_;       // those with messages, and no others when the lock is given away
  int started_ = 0;                 // messages that the thread is to move
  bool has_failed_ = false;         // nothing moves any more
  std::optional<Failure> failure_;  // to be told
  base::Status told_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::collectives::group
