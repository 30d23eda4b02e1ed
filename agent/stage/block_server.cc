// The whole of BlockServer. Read serve() first, then step(), which moves the bytes of one connection.
#include "agent/stage/block_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/net.h"

namespace muster::agent::inline stage {
namespace {

using base::Result;

constexpr int kBacklog = 64;
constexpr std::chrono::milliseconds kAlivePeriod{1'000};
constexpr std::chrono::seconds kHandshakeLimit{10};
constexpr std::chrono::seconds kWriteLimit{60};  // for a peer that accepts no byte

}  // namespace

Result<std::unique_ptr<BlockServer>> BlockServer::listen(base::TlsKey key) {
  MUSTER_ASSIGN_OR_RETURN(base::TlsContext context, base::TlsContext::server({std::move(key)}));
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listener, base::listen_any(0, kBacklog));
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(listener.get()));
  auto wake = std::make_shared<const base::UniqueFd>(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake->valid()) return base::errno_error(errno, "get a descriptor to serve staged files");
  return std::unique_ptr<BlockServer>(new BlockServer(std::move(context), std::move(listener), std::move(wake), port));
}

BlockServer::BlockServer(base::TlsContext context, base::UniqueFd listener, WakeFd wake, std::uint16_t port)
    : context_(std::move(context)), listener_(std::move(listener)), wake_(std::move(wake)), port_(port) {}

void BlockServer::serve(const BlockTable& table, const std::atomic<bool>& stop) {
  block_sigpipe();
  table_ = &table;
  std::vector<pollfd> polled;
  while (!stop && !is_interrupted_) {
    polled.clear();
    polled.push_back({wake_->get(), POLLIN, 0});
    // While the table is full, the kernel keeps new connections.
    polled.push_back({peers_.size() < kMostPeers ? listener_.get() : -1, POLLIN, 0});
    for (const Peer& peer : peers_) {
      polled.push_back({peer.stream.fd(), static_cast<short>(peer.wants_write ? POLLIN | POLLOUT : POLLIN), 0});
    }
    (void)::poll(polled.data(), polled.size(), static_cast<int>(kAlivePeriod.count()));
    eventfd_t count = 0;
    (void)::eventfd_read(wake_->get(), &count);
    if (stop || is_interrupted_) return;
    if (polled[1].revents != 0) accept_peers();
    std::erase_if(peers_, [this](Peer& peer) { return !step(peer) || is_silent(peer); });
  }
}

void BlockServer::interrupt() {
  is_interrupted_ = true;
  (void)::eventfd_write(wake_->get(), 1);
}

void BlockServer::accept_peers() {
  while (peers_.size() < kMostPeers) {
    base::UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) return;
    base::tune_output_socket(fd.get());
    const base::MonotonicTime now = base::monotonic_now();
    peers_.push_back({.stream = base::TlsStream(context_, std::move(fd)), .moved = now, .sent = now});
  }
}

bool BlockServer::is_silent(const Peer& peer) const {
  const base::Duration idle = base::monotonic_now() - peer.moved;
  if (!peer.is_up) return idle > kHandshakeLimit;
  return !peer.outgoing.empty() && idle > kWriteLimit;
}

bool BlockServer::step(Peer& peer) {
  if (!peer.is_up) {
    const auto progress = peer.stream.handshake_step();
    if (!progress.ok()) return false;
    peer.wants_write = *progress == base::TlsProgress::kWantWrite;
    if (*progress != base::TlsProgress::kDone) return true;
    peer.is_up = true;
    peer.moved = base::monotonic_now();
  }
  return read_requests(peer) && write_replies(peer);
}

bool BlockServer::read_requests(Peer& peer) {
  std::array<char, 4096> bytes{};
  while (true) {
    const auto moved = peer.stream.read(bytes.data(), bytes.size());
    if (!moved.ok() || moved->progress == base::TlsProgress::kEof) return false;
    if (moved->bytes == 0) return true;
    peer.incoming.append(bytes.data(), moved->bytes);
    std::size_t at = 0;
    for (; peer.incoming.size() - at >= kBlockRequestSize; at += kBlockRequestSize) {
      peer.asked.push_back(parse_block_request(std::string_view(peer.incoming).substr(at, kBlockRequestSize)));
    }
    peer.incoming.erase(0, at);
    if (peer.asked.size() > kMostAsked) return false;
  }
}

// Chooses the next reply. False if there is none now.
bool BlockServer::next_reply(Peer& peer) {
  peer.outgoing.clear();
  peer.outgoing_at = 0;
  const auto found = std::ranges::find_if(
      peer.asked, [this](BlockId id) { return table_->presence(id) != BlockTable::Presence::kLater; });
  const base::MonotonicTime now = base::monotonic_now();
  if (found == peer.asked.end()) {
    if (peer.asked.empty() || now - peer.sent < kAlivePeriod) return false;
    append_block_reply({.kind = BlockReplyKind::kAlive}, peer.outgoing);
  } else {
    const BlockId id = *found;
    peer.asked.erase(found);
    const auto bytes =
        table_->presence(id) == BlockTable::Presence::kHere ? table_->read(id) : base::not_found("no such block");
    if (bytes.ok()) {
      append_block_reply({.id = id, .size = static_cast<std::uint32_t>(bytes->size())}, peer.outgoing);
      peer.outgoing += *bytes;
    } else {
      append_block_reply({.kind = BlockReplyKind::kRefused, .id = id}, peer.outgoing);
    }
  }
  peer.sent = now;
  return true;
}

// Sends at most a few blocks, so that the other connections have their turn.
bool BlockServer::write_replies(Peer& peer) {
  constexpr int kBlocksATurn = 4;
  peer.wants_write = false;
  for (int blocks = 0; !peer.outgoing.empty() || (blocks < kBlocksATurn && next_reply(peer)); ++blocks) {
    while (peer.outgoing_at < peer.outgoing.size()) {
      const auto moved =
          peer.stream.write(peer.outgoing.data() + peer.outgoing_at, peer.outgoing.size() - peer.outgoing_at);
      if (!moved.ok()) return false;
      if (moved->bytes == 0) {
        peer.wants_write = true;
        return true;
      }
      peer.outgoing_at += moved->bytes;
      peer.moved = base::monotonic_now();
    }
    peer.outgoing.clear();
    peer.outgoing_at = 0;
  }
  // With more to send, come again as soon as the other connections have had their turn.
  peer.wants_write = std::ranges::any_of(
      peer.asked, [this](BlockId id) { return table_->presence(id) != BlockTable::Presence::kLater; });
  return true;
}

}  // namespace muster::agent::stage
