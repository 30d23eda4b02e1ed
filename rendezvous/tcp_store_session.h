// One connection of a torch TCPStore client, without its socket: request bytes go in, a Store is used, reply bytes come
// out. tcp_store_protocol.h has the format and its source; semantics are those of torch's libuv server, for A and B of
// its older one, except that nothing is registered twice or left behind by a client that went away.
//
// All calls on the loop thread of the Store. Store and hub outlive the sessions. A session must not be destroyed in one
// of its own calls nor in its `on_output`; it takes its waits with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "rendezvous/store.h"
#include "rendezvous/tcp_store_protocol.h"
#include "rendezvous/tcp_store_stream.h"

namespace muster::rendezvous {

struct TcpStoreLimits {
  TorchRequestLimits request;
  std::size_t max_reply_bytes = std::size_t{256} << 20;  // of one reply (MULTI_GET, LIST_KEYS), and of unread events
  std::size_t unread_bytes = 1 << 20;  // a client that leaves as much of its replies unread is not served
  std::size_t max_waits = 16;          // of one connection at a time; torch's clients have one
  std::size_t max_watches = 1024;      // of one connection
  std::size_t max_total_bytes = std::size_t{1} << 30;  // requests, replies and waits of all connections
};

class TcpStoreSession;

// What the sessions of one Store share.
class TcpStoreHub {
 public:
  // `hint` as in tcp_store_stream.h.
  TcpStoreHub(Store* store, TorchGeneration hint, const TcpStoreLimits& limits)
      : store_(store), limits_(limits), peers_(std::make_shared<TorchPeers>(hint)) {}
  TcpStoreHub(const TcpStoreHub&) = delete;
  TcpStoreHub& operator=(const TcpStoreHub&) = delete;

  // A connection from `address` is there, but has no session yet: it is silent while the result lives. That may be
  // longer than the hub does.
  std::shared_ptr<void> expect_silent(const std::string& address) const;

  std::size_t total_bytes() const { return total_bytes_; }  // held by all sessions

 private:
  friend class TcpStoreSession;
  using Sessions = std::unordered_map<std::string, std::vector<TcpStoreSession*>>;

  Store* const store_;
  const TcpStoreLimits limits_;
  const std::shared_ptr<TorchPeers> peers_;
  Sessions watchers_;  // by key
  Sessions arrived_;   // at a barrier, by its key
  std::size_t total_bytes_ = 0;
};

class TcpStoreSession {
 public:
  // `address` of the peer, the same for all its connections. `on_output` is called when output() has grown, or
  // failure() has come, by what others did.
  TcpStoreSession(TcpStoreHub* hub, std::string address, std::function<void()> on_output);
  ~TcpStoreSession();
  TcpStoreSession(const TcpStoreSession&) = delete;
  TcpStoreSession& operator=(const TcpStoreSession&) = delete;

  // The next bytes of the stream, only while wants_input(). INVALID_ARGUMENT: not torch's protocol or beyond its
  // limits; RESOURCE_EXHAUSTED: beyond ours; others: what the Store says where the protocol has no word for it.
  // After an error the session serves no more; what output() has may still be sent.
  base::Status receive(std::string_view bytes);

  std::string_view output() const { return std::string_view(output_).substr(sent_); }
  // The first `size` bytes of output() were sent; requests held back are served. Errors as receive().
  base::Status consume_output(std::size_t size);

  bool wants_input() const { return failure_.ok() && !is_held_back_; }
  const base::Status& failure() const { return failure_; }  // the error of the last call, or what ended it since

 private:
  struct Wait {
    std::uint64_t token;
    Store::WaitId id;
    std::size_t bytes;  // registered for it
  };

  base::Status serve();
  base::Status execute();
  base::Status multi_set();
  base::Status compare_set();
  base::Status add();
  base::Status get();
  base::Status delete_key();
  base::Status list_keys();
  base::Status queue_pop();
  base::Status wait();
  base::Status barrier();
  base::Status watch();
  base::Status cancel_wait();

  bool has_all() const;
  base::Status may_wait() const;
  void cancel_waits();
  void wait_ended(std::uint64_t token);
  void barrier_passed(const std::string& key);
  void stop_waiting();

  template <typename Apply>
  base::Status change(std::string_view key, const Apply& apply);
  void tell(std::uint8_t event, std::string_view key, std::string_view before, std::string_view after);

  template <typename T>
  base::Status reply(T number);
  base::Status check_reply(std::size_t size) const;
  void grown_by_others();
  base::Status account();

  TcpStoreHub* const hub_;
  Store* const store_;
  const std::function<void()> on_output_;
  TorchRequestStream stream_;
  std::string output_;
  std::size_t sent_ = 0;               // of output_
  bool is_held_back_ = false;          // too much of output_ is unread
  bool is_serving_ = false;            // in one of its own calls
  std::vector<Wait> waits_;            // in the Store
  std::vector<std::string> barriers_;  // at which it has arrived and waits
  std::vector<std::string> watched_;
  std::uint64_t next_token_ = 1;
  std::size_t registered_bytes_ = 0;  // keys of waits, barriers and watches
  std::size_t accounted_bytes_ = 0;   // this session's part of the hub's total
  base::Status failure_;
};

}  // namespace muster::rendezvous
