// Serves an empty store to torch's TCPStore clients of its own user, on a port that it prints. Each line "renew" on its
// stdin begins anew with an empty store; it ends with its stdin.
//   tcp_store_server [LINKS]
// With LINKS, clients reach the store as those of another host in a tree do: by a proxy and so many links. There is no
// "renew" then.
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/net.h"
#include "rendezvous/local_owner.h"
#include "rendezvous/memory_store.h"
#include "rendezvous/tcp_store_server.h"
#include "tests/unit/rendezvous/proxied_store.h"

namespace {

using namespace muster;

class Program {
 public:
  base::Status begin(int links) {
    MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, 4096));
    MUSTER_ASSIGN_OR_RETURN(std::uint16_t port, base::local_port(listening.get()));
    rendezvous::TcpStoreServerConfig config;
    config.owner_check = rendezvous::allow_local_owner(::getuid());
    config.on_problem = [](const base::Status& status) { std::fprintf(stderr, "%s\n", status.message().c_str()); };
    MUSTER_ASSIGN_OR_RETURN(
        server_, rendezvous::TcpStoreServer::start(&loop_, std::move(listening), store_.get(), std::move(config)));
    if (links > 0) {
      proxied_ = std::make_unique<rendezvous::ProxiedStore>(loop_, server_->hub(),
                                                            rendezvous::allow_local_owner(::getuid()), links);
      port = proxied_->port();
    }
    input_ = loop_.on_readable(STDIN_FILENO, [this] { read_input(); });
    std::printf("port %d\n", port);
    std::fflush(stdout);
    return base::ok_status();
  }

  void run() { loop_.run(); }

 private:
  void read_input() {
    std::array<char, 256> bytes{};
    const ssize_t size = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    if (size <= 0) return loop_.stop();
    line_.append(bytes.data(), static_cast<std::size_t>(size));
    for (std::size_t end = line_.find('\n'); end != std::string::npos; end = line_.find('\n')) {
      if (line_.substr(0, end) == "renew") renew();
      line_.erase(0, end + 1);
    }
  }

  void renew() {
    auto fresh = std::make_unique<rendezvous::MemoryStore>();
    const base::Status status = server_->renew(fresh.get());
    store_ = std::move(fresh);
    std::printf("%s\n", status.ok() ? "renewed" : status.message().c_str());
    std::fflush(stdout);
  }

  base::Loop loop_;
  std::unique_ptr<rendezvous::MemoryStore> store_ = std::make_unique<rendezvous::MemoryStore>();
  std::unique_ptr<rendezvous::TcpStoreServer> server_;
  std::unique_ptr<rendezvous::ProxiedStore> proxied_;
  base::Timer input_;
  std::string line_;
};

}  // namespace

int main(int count, char** words) {
  ::signal(SIGPIPE, SIG_IGN);
  Program program;
  if (const base::Status status = program.begin(count > 1 ? std::atoi(words[1]) : 0); !status.ok()) {
    std::fprintf(stderr, "tcp_store_server: %s\n", status.message().c_str());
    return 1;
  }
  program.run();
  return 0;
}
