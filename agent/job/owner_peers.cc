// The whole of OwnerPeers. Read the layout of a datagram first (kMagic and the constants below it).
// Then read ask_host() and send_again(), which ask, arrived(), answered(), which handles answers, and asked(), which
// answers questions.

#include "agent/job/owner_peers.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/hmac.h"
#include "base/ids.h"
#include "base/little_endian.h"
#include "base/shortened.h"
#include "base/strings.h"

namespace muster::agent::inline job {
namespace {

using namespace std::chrono_literals;

// Fields of a datagram, in bytes: magic 8, kind 1, peer's port 2, local port 2, peer 16, local 16, nonce 16. An answer
// about a client has these fields, too: milliseconds since its wait began 8, and as text what it waits for, which is
// empty if it waits for nothing. The HMAC of all fields stands behind them.
constexpr std::string_view kMagic = "MUSTEROQ";
constexpr std::size_t kAddressBytes = 16;
constexpr std::size_t kNonceBytes = 16;
constexpr std::size_t kKindAt = 8;
constexpr std::size_t kPortsAt = kKindAt + 1;
constexpr std::size_t kPeerAt = kPortsAt + 4;
constexpr std::size_t kLocalAt = kPeerAt + kAddressBytes;
constexpr std::size_t kNonceAt = kLocalAt + kAddressBytes;
constexpr std::size_t kBodyBytes = kNonceAt + kNonceBytes;
constexpr std::size_t kTextAt = kBodyBytes + sizeof(std::uint64_t);  // in answers about clients
constexpr std::size_t kMostText = 512;
constexpr char kQuestion = 'q';
constexpr char kAllowed = 'y';
constexpr char kClientQuestion = 'w';
constexpr char kClient = 'c';

constexpr int kMostSends = 5;  // all within a second, because the listener waits only some seconds for the answer
constexpr base::Duration kBetweenSends = 200ms;
constexpr std::size_t kMaxQuestions = 4096;
constexpr int kDatagramsPerTurn = 64;

in6_addr mapped(const base::SockAddr& address) {
  if (address.get()->sa_family == AF_INET6) return reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr;
  in6_addr result{};
  result.s6_addr[10] = result.s6_addr[11] = 0xff;
  std::memcpy(&result.s6_addr[12], &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, 4);
  return result;
}

std::string address_bytes(const base::IpAddress& address) {
  const in6_addr bytes = mapped(base::make_sockaddr(address, 0));
  return {reinterpret_cast<const char*>(bytes.s6_addr), kAddressBytes};
}

base::Result<base::IpAddress> address_of(std::string_view bytes) {
  base::SockAddr address;
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  v6->sin6_family = AF_INET6;
  std::memcpy(v6->sin6_addr.s6_addr, bytes.data(), kAddressBytes);
  return base::IpAddress::from_sockaddr(address.get());
}

// An IPv6 socket sends to IPv4 addresses only in their mapped form.
base::SockAddr as_v6(const base::SockAddr& address) {
  if (address.get()->sa_family == AF_INET6) return address;
  base::SockAddr result;
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&result.storage);
  v6->sin6_family = AF_INET6;
  v6->sin6_addr = mapped(address);
  v6->sin6_port = reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port;
  result.size = sizeof *v6;
  return result;
}

void set_port(base::SockAddr& address, std::uint16_t port) {
  if (address.get()->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(port);
  }
}

// Listens on all addresses. On a host without IPv6 it listens on IPv4 only.
base::UniqueFd open_datagram_socket(bool& is_v6) {
  for (const int family : {AF_INET6, AF_INET}) {
    base::UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.valid()) continue;
    const int off = 0;
    if (family == AF_INET6) (void)::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    base::SockAddr any;
    any.storage.ss_family = static_cast<sa_family_t>(family);
    any.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    is_v6 = family == AF_INET6;
    if (::bind(fd.get(), any.get(), any.size) == 0) return fd;
  }
  return {};
}

}  // namespace

OwnerPeers::OwnerPeers(base::Loop& loop, Answer answer, AnswerClient answer_client)
    : loop_(loop), answer_(std::move(answer)), answer_client_(std::move(answer_client)) {}

OwnerPeers::~OwnerPeers() {
  base::wipe(key_);
}

base::Result<std::uint16_t> OwnerPeers::open(const std::string& secret) {
  const base::HmacDigest key = base::hmac_sha256(secret, {"muster owner questions 1"});
  key_.assign(key.data(), key.size());
  socket_ = open_datagram_socket(is_v6_);
  if (!socket_.valid()) return base::errno_error(errno, "open a socket for questions of other hosts' agents");
  readable_ = loop_.on_readable(socket_.get(), [this] { readable(); });
  return base::local_port(socket_.get());
}

void OwnerPeers::add_peers(const google::protobuf::RepeatedPtrField<v1::JobPeer>& peers) {
  constexpr std::uint32_t kMaxPort = 65535;
  for (const v1::JobPeer& peer : peers) {
    has_peers_ = true;
    for (const std::string& text : peer.addresses()) {
      const auto address = base::IpAddress::parse(text);
      if (!address.ok()) continue;
      std::set<std::uint16_t>& ports = ports_[*address];
      if (peer.owner_port() > 0 && peer.owner_port() <= kMaxPort) {
        ports.insert(static_cast<std::uint16_t>(peer.owner_port()));
      }
    }
  }
}

bool OwnerPeers::is_stranger(const base::IpAddress& address) const {
  return has_peers_ && !ports_.contains(address);
}

std::string OwnerPeers::seal(std::string body) const {
  const base::HmacDigest digest = base::hmac_sha256(key_, {body});
  return body.append(digest.data(), digest.size());
}

void OwnerPeers::ask(const rendezvous::ConnectionEnds& ends, std::function<void()> allowed) {
  Question question;
  question.allowed = std::move(allowed);
  (void)ask_host(ends.peer, kQuestion, ends, question);
}

void OwnerPeers::ask_client(const rendezvous::ConnectionEnds& ends,
                            std::function<void(std::optional<StoreClient>)> done) {
  Question question;
  question.told = std::move(done);
  if (!ask_host(ends.local, kClientQuestion, ends, question)) question.told(std::nullopt);
}

// Sends the question to the agents of this host, and keeps it. Returns false, and leaves the question unchanged, if
// none can be asked.
bool OwnerPeers::ask_host(const base::IpAddress& host, char kind, const rendezvous::ConnectionEnds& ends,
                          Question& question) {
  const auto peer = ports_.find(host);
  if (!socket_.valid() || peer == ports_.end() || peer->second.empty() || questions_.size() >= kMaxQuestions) {
    return false;
  }
  std::array<char, 4> ports{};
  base::put_little_endian(ports.data(), ends.peer_port);
  base::put_little_endian(ports.data() + 2, ends.local_port);
  const std::string nonce = base::random_hex(kNonceBytes / 2);
  std::string body(kMagic);
  body.push_back(kind);
  body.append(ports.data(), ports.size()).append(address_bytes(ends.peer)).append(address_bytes(ends.local));
  body.append(nonce);
  question.datagram = seal(std::move(body));
  question.to = base::make_sockaddr(host, 0);
  question.ports = peer->second;
  if (is_v6_) question.to = as_v6(question.to);
  Question& kept = questions_.emplace(nonce, std::move(question)).first->second;
  if (!again_.armed()) again_ = loop_.every(kBetweenSends, [this] { send_again(); });
  ++kept.sent;
  for (const std::uint16_t port : kept.ports) {
    set_port(kept.to, port);
    send(kept.datagram, kept.to);
  }
  return true;
}

// Sends questions again, because a datagram may be lost.
void OwnerPeers::send_again() {
  std::vector<Question> late;
  std::erase_if(questions_, [&late](auto& entry) {
    if (entry.second.sent < kMostSends) return false;
    if (entry.second.told) late.push_back(std::move(entry.second));
    return true;
  });
  for (auto& [nonce, question] : questions_) {
    ++question.sent;
    for (const std::uint16_t port : question.ports) {
      set_port(question.to, port);
      send(question.datagram, question.to);
    }
  }
  if (questions_.empty()) again_.cancel();
  for (const Question& question : late) question.told(std::nullopt);  // last, because these callbacks may ask again
}

void OwnerPeers::send(const std::string& datagram, const base::SockAddr& to) {
  // Ignore errors: a datagram that was not sent counts as lost on the way.
  (void)::sendto(socket_.get(), datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size);
}

void OwnerPeers::readable() {
  std::array<char, kTextAt + kMostText + base::kHmacSize + 1> bytes{};
  for (int i = 0; i < kDatagramsPerTurn; ++i) {
    base::SockAddr from;
    from.size = sizeof from.storage;
    const ssize_t size = ::recvfrom(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT,
                                    reinterpret_cast<sockaddr*>(&from.storage), &from.size);
    if (size < 0 && errno == EAGAIN) return;
    if (size > 0) arrived({bytes.data(), static_cast<std::size_t>(size)}, from);
  }
}

void OwnerPeers::arrived(std::string_view datagram, const base::SockAddr& from) {
  if (datagram.size() < kBodyBytes + base::kHmacSize || !datagram.starts_with(kMagic)) return;
  const std::string_view body = datagram.substr(0, datagram.size() - base::kHmacSize);
  const base::HmacDigest digest = base::hmac_sha256(key_, {body});
  if (!base::is_equal_in_constant_time({digest.data(), digest.size()}, datagram.substr(body.size()))) return;
  const char kind = body[kKindAt];
  const bool has_text = kind == kClient;
  if (has_text ? body.size() < kTextAt || body.size() > kTextAt + kMostText : body.size() != kBodyBytes) return;
  return kind == kAllowed || kind == kClient ? answered(body) : asked(body, from);
}

// Accepts an answer only if all its fields except the kind equal those of the question.
void OwnerPeers::answered(std::string_view body) {
  const auto found = questions_.find(std::string(body.substr(kNonceAt, kNonceBytes)));
  if (found == questions_.end()) return;
  const std::string_view question(found->second.datagram);
  const bool is_of_kind = question[kKindAt] == (body[kKindAt] == kAllowed ? kQuestion : kClientQuestion);
  const std::size_t fields = kBodyBytes - kPortsAt;
  if (!is_of_kind || body.substr(kPortsAt, fields) != question.substr(kPortsAt, fields)) return;
  const Question ended = std::move(questions_.extract(found).mapped());
  if (ended.allowed) return ended.allowed();
  StoreClient client;
  if (const std::string text(body.substr(kTextAt)); !text.empty()) {
    const auto ms =
        std::min<std::uint64_t>(base::get_little_endian<std::uint64_t>(body.data() + kBodyBytes), INT32_MAX);
    client.wait = Awaited{.what = text, .since = base::monotonic_now() - std::chrono::milliseconds(ms)};
  }
  ended.told(std::move(client));
}

void OwnerPeers::asked(std::string_view body, const base::SockAddr& from) {
  const char kind = body[kKindAt];
  const auto peer = address_of(body.substr(kPeerAt, kAddressBytes));
  const auto local = address_of(body.substr(kLocalAt, kAddressBytes));
  if ((kind != kQuestion && kind != kClientQuestion) || !peer.ok() || !local.ok()) return;
  const rendezvous::ConnectionEnds ends{*peer, base::get_little_endian<std::uint16_t>(body.data() + kPortsAt), *local,
                                        base::get_little_endian<std::uint16_t>(body.data() + kPortsAt + 2)};
  std::string answer(body);
  if (kind == kQuestion) {
    // Without an answer the asking agent also asks the launcher, which refuses the connection.
    if (!answer_(ends)) return;
    answer[kKindAt] = kAllowed;
  } else {
    const auto client = answer_client_ ? answer_client_(ends) : std::nullopt;
    if (!client) return;  // another agent of this host may serve it
    answer[kKindAt] = kClient;
    std::array<char, sizeof(std::uint64_t)> ms{};
    const auto age = client->wait ? base::monotonic_now() - client->wait->since : base::Duration{};
    const auto age_ms = std::chrono::duration_cast<std::chrono::milliseconds>(age).count();
    base::put_little_endian(ms.data(), static_cast<std::uint64_t>(std::max<std::int64_t>(age_ms, 0)));
    answer.append(ms.data(), ms.size());
    if (client->wait) answer += base::shortened(client->wait->what, kMostText);
  }
  send(seal(std::move(answer)), from);
}

}  // namespace muster::agent::job
