// A link over a connected TCP socket; any stream socket works.
#pragma once

#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "collectives/transport/link.h"
#include "collectives/transport/tcp_options.h"

namespace muster::collectives::inline transport {

class TcpLink final : public Link {
 public:
  // Sets the socket's options. `peer` is the peer's name in messages: "rank 3 (n2)".
  static base::Result<std::unique_ptr<TcpLink>> create(base::UniqueFd socket, std::string peer,
                                                       const TcpOptions& options);

  std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  using Link::try_receive;
  std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) override;
  base::Status why() const override;
  int fd() const override { return socket_.get(); }

 private:
  TcpLink(base::UniqueFd socket, std::string peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}
  std::ptrdiff_t failed(int error);

  base::UniqueFd socket_;
  std::string peer_;
  bool is_closed_ = false;  // the peer has closed the connection without an error
  int error_ = 0;           // errno of the error that broke the link
};

}  // namespace muster::collectives::transport
