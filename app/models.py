"""`/v1/models` and `/v1/scenes`: what is served, and what its first frames look like."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from app.answers import media, problems
from app.dependencies import EdgeNow, Owner
from app.image_header import read_header
from app.intake import served_names
from app.model_views import ModelList, ModelView
from app.refusals import UnknownScene, shortened
from app.strict_route import StrictRoute

router = APIRouter(
    prefix="/v1", route_class=StrictRoute, responses=problems(s422="A field is wrong: `field` names it.")
)


@router.get(
    "/models",
    tags=["models"],
    summary="The served model",
    response_description="The model, in a list of one.",
    responses=problems(s401="No valid API key.", s503="Still loading."),
)
async def list_models(edge: EdgeNow, owner: Owner) -> ModelList:
    """What the model is: its sizes, rate, chunk lengths, scenes and the controls that it takes."""
    return ModelList(data=[ModelView.of(edge.card, served_names(edge.card, edge.settings))])


@router.get(
    "/scenes/{name}/image",
    tags=["models"],
    summary="A scene's picture",
    response_class=Response,
    responses={
        200: media("PNG, JPEG or WebP.", "image/*"),
        **problems(s404="No such scene, or it has no picture.", s503="Still loading."),
    },
)
async def scene_image(
    edge: EdgeNow, name: Annotated[str, Path(max_length=128, description="A scene's `name`.")]
) -> Response:
    """The first frame of a scene, to be shown before play."""
    image = next((scene.image for scene in edge.card.scenes if scene.name == name), None)
    header = read_header(image) if image else None
    if image is None or header is None:
        raise UnknownScene("name", f"no picture of a scene {shortened(name)}; see `/v1/models`")
    return Response(image, media_type=f"image/{header.format}", headers={"Cache-Control": "max-age=3600"})
