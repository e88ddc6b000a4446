"""Where things are, in the words of one answer."""

from dataclasses import dataclass

from api.links import Signer


def job_path(job_id: str) -> str:
    """The path of a job below the API's root."""
    return f"/v1/jobs/{job_id}"


def bulk_path(bulk_id: str) -> str:
    """The path of a bulk operation below the API's root."""
    return f"/v1/bulk/{bulk_id}"


@dataclass(frozen=True)
class Addresses:
    """Addresses below `base_url`, which has no slash at its end; `signer` for image links."""

    base_url: str
    signer: Signer | None = None

    def job(self, job_id: str) -> str:
        """Where a job is; needs a key where there are any."""
        return f"{self.base_url}{job_path(job_id)}"

    def bulk(self, bulk_id: str) -> str:
        """Where a bulk operation is; needs a key where there are any."""
        return f"{self.base_url}{bulk_path(bulk_id)}"

    def image(self, job_id: str, *, final: bool = False) -> str:
        """Where a job's image is, or its chain's last one, for a browser that has no key."""
        plain = f"{self.job(job_id)}/image"
        if self.signer:
            return f"{plain}?{self.signer.query(job_id, final=final)}"
        return f"{plain}?final=true" if final else plain
