# A cluster by Terraform's rancher2 provider, which works with the server as it is:
#   terraform init && terraform apply -var url=https://drover.example.com:8443 -var token=token-abcde:…
terraform {
  required_providers {
    rancher2 = { source = "rancher/rancher2" }
  }
}

variable "url" { type = string }
variable "token" {
  type      = string
  sensitive = true
}

provider "rancher2" {
  api_url   = var.url
  token_key = var.token
}

resource "rancher2_cluster_v2" "harbour" {
  name               = "harbour"
  kubernetes_version = "v1.34.4+k3s1"
  rke_config {
    machine_global_config = yamlencode({ disable = ["traefik"] })
  }
}

output "join" {
  value     = rancher2_cluster_v2.harbour.cluster_registration_token[0].node_command
  sensitive = true
}
