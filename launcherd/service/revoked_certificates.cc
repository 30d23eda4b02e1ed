#include "launcherd/service/revoked_certificates.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>

namespace muster::launcherd::inline service {
namespace {

using Certificate = std::shared_ptr<X509>;

// Returns all objects of one kind in `pem`. `is_whole` is true if no damaged object follows the last one.
template <typename Object>
struct PemObjects {
  std::vector<std::shared_ptr<Object>> objects;
  bool is_whole = false;
};

template <typename Object>
PemObjects<Object> pem_objects(const std::string& pem, Object* (*read_one)(BIO*, Object**, pem_password_cb*, void*),
                               void (*free_one)(Object*)) {
  PemObjects<Object> found;
  const std::unique_ptr<BIO, decltype(&::BIO_free_all)> bio(::BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())),
                                                            &::BIO_free_all);
  if (bio == nullptr) return found;
  ::ERR_clear_error();
  while (Object* const object = read_one(bio.get(), nullptr, nullptr, nullptr)) {
    found.objects.emplace_back(object, free_one);
  }
  found.is_whole = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ::ERR_clear_error();
  return found;
}

bool is_signed_by(X509_CRL* list, const Certificate& authority) {
  if (::X509_NAME_cmp(::X509_CRL_get_issuer(list), ::X509_get_subject_name(authority.get())) != 0) return false;
  const bool is_signed = ::X509_CRL_verify(list, ::X509_get0_pubkey(authority.get())) == 1;
  ::ERR_clear_error();
  return is_signed;
}

}  // namespace

base::Result<RevokedCertificates> RevokedCertificates::read(const std::string& crl_pem, const std::string& ca_pem) {
  RevokedCertificates result;
  if (crl_pem.empty()) return result;
  auto lists = pem_objects(crl_pem, ::PEM_read_bio_X509_CRL, ::X509_CRL_free);
  if (lists.objects.empty() || !lists.is_whole) {
    return base::invalid_argument("the list of revoked certificates is not in PEM format");
  }
  const auto authorities = pem_objects(ca_pem, ::PEM_read_bio_X509, ::X509_free).objects;
  for (const auto& list : lists.objects) {
    if (std::ranges::none_of(authorities, [&](const Certificate& one) { return is_signed_by(list.get(), one); })) {
      return base::invalid_argument("the list of revoked certificates is not signed by an authority of --client-ca");
    }
    if (::X509_CRL_get_ext_by_NID(list.get(), NID_delta_crl, -1) >= 0) {
      return base::invalid_argument(
          "the list of revoked certificates holds only changes (a delta CRL): give a full list");
    }
  }
  result.lists_ = std::move(lists.objects);
  return result;
}

bool RevokedCertificates::has_one_of(const std::string& chain_pem) const {
  if (lists_.empty()) return false;
  const auto chain = pem_objects(chain_pem, ::PEM_read_bio_X509, ::X509_free).objects;
  return std::ranges::any_of(chain, [this](const Certificate& certificate) {
    return std::ranges::any_of(lists_, [&](const std::shared_ptr<X509_CRL>& list) {
      X509_REVOKED* entry = nullptr;
      return ::X509_CRL_get0_by_cert(list.get(), &entry, certificate.get()) == 1;
    });
  });
}

}  // namespace muster::launcherd::service
